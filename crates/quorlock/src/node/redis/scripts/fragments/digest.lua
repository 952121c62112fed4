-- The public digest of a signature. Mirrors quorlock-core's digest::Digest. The signature of a broken vote contains its digest.
local function broken_digest(signature)
  if #signature ~= 32 then return end
  local known = string.match(signature, '^(%x+)' .. NOBODY .. '$')
  return known and #known == 16 and known
end

local function digest(signature)
  return broken_digest(signature) or string.sub(redis.sha1hex(signature), 1, 16)
end
