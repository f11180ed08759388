// FarmHash's Fingerprint64 (Google, 2014): the hash by which TensorFlow's StringToHashBucketFast chooses buckets. It
// never changes, so a trained embedding keeps its buckets. Not for security.
#pragma once

#include <cstdint>
#include <string_view>

namespace rivulet {

uint64_t Fingerprint64(std::string_view text);

}  // namespace rivulet
