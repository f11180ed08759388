// Codec of a part: encodes floats to bytes at the client and adds bytes to sums at the aggregation. Neither side needs
// a temporary of the part's size, and adding does not touch coordinates that were not sent. Each codec is one
// registered file of this folder, and the plan names it for each part.
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
  // Creates the codec of a part of `elements` values; omitted settings have their defaults. NOT_FOUND: no such codec
  // (the message names the nearest). INVALID_ARGUMENT: as Settings::Read, or the part is too long for this codec.
  static StatusOr<std::unique_ptr<const Codec>> Create(std::string_view name, int64_t elements,
                                                       const std::map<std::string, double>& settings = {});

  // Returns true if the bytes are the values themselves, little-endian float32 in wire order. An update that is
  // aggregated in the process that trained it then needs no bytes.
  virtual bool transparent() const { return false; }
  virtual int64_t MaxBytes() const = 0;
  // Appends the bytes of all `elements` values, given as runs of wire order. `draws` is the task's own random stream,
  // for stochastic rounding and sampling. Values should be finite. Others are encoded so that Decode returns values
  // that are not finite or exceed every bound.
  virtual void Encode(std::span<const FloatRun> values, Draws& draws, std::string& out) const = 0;
  // INVALID_ARGUMENT: Encode never produces such bytes. Values are not checked here: the aggregation checks Decode's.
  virtual Status Check(std::span<const std::byte> bytes) const = 0;
  // Returns true if all updates of a version send values at the same places. Then `draws` of Encode are the version's
  // (federated/aggregation/shared_places.h) and decide nothing else.
  virtual bool shares_places() const { return false; }
  // For a codec with shares_places: their number, and the places, ascending, that Encode picks with the same draws.
  virtual int64_t places() const { return 0; }
  virtual std::vector<uint32_t> Places(Draws) const { return {}; }
  // The largest factor by which a decoded value may exceed the encoded one; 1 for codecs that round.
  virtual double most_gain() const { return 1; }
  // Writes values first .. first + out.size() - 1 of checked bytes. The result depends on the bytes alone, anywhere.
  virtual void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const = 0;
  // For a codec that sends some values with their places: a view of them in checked bytes. Decode gives zeros for all
  // others, so that an aggregation may skip them. nullopt for other codecs.
  virtual std::optional<SparseRun> Sparse(std::span<const std::byte>) const { return std::nullopt; }
};

using CodecFactory = StatusOr<std::unique_ptr<const Codec>> (*)(int64_t elements, const Settings& settings);
using PlainCodecFactory = std::unique_ptr<const Codec> (*)(int64_t elements);
// Also registers the table ("codec", name), so that scenarios know the name. CHECK fails if two codecs have one name.
struct CodecRegistration {
  // `doc` completes "NAME: …" in the reference. `settings` must be floats, because a plan stores them as floats. For
  // `traits` see federated/settings/traits.h.
  CodecRegistration(const char* name, const char* doc, std::vector<Setting> settings, CodecFactory factory,
                    std::vector<std::string> traits = {});
  // For a codec without settings.
  CodecRegistration(const char* name, const char* doc, PlainCodecFactory factory, std::vector<std::string> traits = {});
};
#define RIVULET_CODEC(...) \
  [[maybe_unused]] static const ::rivulet::CodecRegistration RIVULET_CONCAT_(rivulet_codec_, __COUNTER__)(__VA_ARGS__)

}  // namespace rivulet
