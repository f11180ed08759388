// Codec of a part: encodes floats to bytes at the client and adds bytes to sums at the aggregation. Neither side needs
// a temporary of the part's size, and coordinates that a codec did not send are not touched. A codec is one registered
// file of this folder, and the plan names it for each part.
//
//   class Int8 : public Codec { … };
//   RIVULET_CODEC("int8", "a quarter of the bytes, …", CreateInt8);
//   RIVULET_CODEC("top_k", "only the values …", {Float("fraction", …)}, CreateTopK);
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/draws.h"
#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "federated/codecs/float_run.h"
#include "federated/codecs/sparse_run.h"

namespace rivulet {

// Immutable, thread-safe.
class Codec {
 public:
  virtual ~Codec() = default;
  // The codec of a part of `elements` values; settings that are not given have their defaults. NOT_FOUND names the
  // nearest; INVALID_ARGUMENT as Settings::Read, or a part that is too long for it.
  static StatusOr<std::unique_ptr<const Codec>> Create(std::string_view name, int64_t elements,
                                                       const std::map<std::string, double>& settings = {});

  // Whether the bytes are the values themselves, little-endian float32 in wire order: then whoever folds in the process
  // that trained needs no bytes.
  virtual bool transparent() const { return false; }
  virtual int64_t MaxBytes() const = 0;
  // Appends the bytes of all `elements` values, which lie in runs of wire order. `draws`: the task's own stream, for
  // stochastic rounding and sampling. Values are finite; what is not may become anything that Decode gives back as not
  // finite or beyond every bound.
  virtual void Encode(std::span<const FloatRun> values, Draws& draws, std::string& out) const = 0;
  // INVALID_ARGUMENT: not what Encode makes. Values are not judged here: whoever folds judges what Decode gives.
  virtual Status Check(std::span<const std::byte> bytes) const = 0;
  // Whether all updates of a version send values at the same places. Then `draws` of Encode are the version's
  // (federated/aggregation/shared_places.h) and decide nothing else.
  virtual bool shares_places() const { return false; }
  // Of such a codec: how many places, and the places, ascending, by the same draws.
  virtual int64_t places() const { return 0; }
  virtual std::vector<uint32_t> Places(Draws) const { return {}; }
  // The largest factor by which a decoded value may exceed the encoded one; 1 of codecs that round.
  virtual double most_gain() const { return 1; }
  // Values first .. first + out.size() - 1 of checked bytes: a pure function of them, on every machine the same.
  virtual void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const = 0;
  // Of a codec that sends some values with their places: those of checked bytes, where they lie; Decode gives zeros for
  // all others, so that whoever folds need not ask it. Otherwise nothing.
  virtual std::optional<SparseRun> Sparse(std::span<const std::byte>) const { return std::nullopt; }
};

using CodecFactory = StatusOr<std::unique_ptr<const Codec>> (*)(int64_t elements, const Settings& settings);
using PlainCodecFactory = std::unique_ptr<const Codec> (*)(int64_t elements);
// Registers the table ("codec", name) too, so that scenarios know the name. A check fails where two have one name.
struct CodecRegistration {
  // `doc` completes "NAME: …" in the reference. `settings` are floats, since a plan holds them as such. `traits` are of
  // federated/settings/traits.h.
  CodecRegistration(const char* name, const char* doc, std::vector<Setting> settings, CodecFactory factory,
                    std::vector<std::string> traits = {});
  // Of a codec without settings.
  CodecRegistration(const char* name, const char* doc, PlainCodecFactory factory, std::vector<std::string> traits = {});
};
#define RIVULET_CODEC(...) \
  [[maybe_unused]] static const ::rivulet::CodecRegistration RIVULET_CONCAT_(rivulet_codec_, __COUNTER__)(__VA_ARGS__)

}  // namespace rivulet
