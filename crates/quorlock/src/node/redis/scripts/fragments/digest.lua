-- Returns the digest of a broken vote, which its signature contains, or nil for other signatures.
local function broken_digest(signature)
  if #signature ~= 32 then return end
  local known = string.match(signature, '^(%x+)' .. NOBODY .. '$')
  return known and #known == 16 and known
end

-- Returns the public digest of a signature. Mirrors quorlock-core's digest::Digest.
local function digest(signature)
  return broken_digest(signature) or string.sub(redis.sha1hex(signature), 1, 16)
end
