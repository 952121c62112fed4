-- What can be told of a signature: digest::Digest of quorlock-core. That of a broken vote is a digest already.
local function broken_digest(signature)
  if #signature ~= 32 then return end
  local known = string.match(signature, '^(%x+)' .. NOBODY .. '$')
  return known and #known == 16 and known
end

local function digest(signature)
  return broken_digest(signature) or string.sub(redis.sha1hex(signature), 1, 16)
end
