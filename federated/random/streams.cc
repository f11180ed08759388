#include "federated/random/streams.h"

#include <utility>

#include "engine/base/sha256.h"

namespace rivulet {
namespace {

uint32_t LittleEndianWord(const uint8_t* bytes) {
  return uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[3]} << 24;
}

}  // namespace

PhiloxKey KeyFor(uint64_t seed, std::string_view client_id) {
  Sha256 hash;
  hash.UpdateU64(seed).Update(client_id);
  const Digest digest = std::move(hash).Finish();
  return {{LittleEndianWord(digest.bytes.data()), LittleEndianWord(digest.bytes.data() + 4)}};
}

uint64_t ClientKey(uint64_t seed, std::string_view client_id) {
  const PhiloxKey key = KeyFor(seed, client_id);
  return uint64_t{key.words[0]} | uint64_t{key.words[1]} << 32;
}

StreamKey StreamFor(uint64_t client_key, Purpose purpose, uint32_t round, uint16_t ordinal) {
  StreamKey stream;
  stream.key = {{static_cast<uint32_t>(client_key), static_cast<uint32_t>(client_key >> 32)}};
  stream.ordinal = ordinal;
  stream.round = round;
  stream.purpose = static_cast<uint8_t>(purpose);
  return stream;
}

StreamKey StreamFor(uint64_t seed, std::string_view client_id, Purpose purpose, uint32_t round, uint16_t ordinal) {
  return StreamFor(ClientKey(seed, client_id), purpose, round, ordinal);
}

}  // namespace rivulet
