// A version as clients decode it after a lossy download codec: README.md.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "federated/codecs/codec.h"
#include "federated/weights/model.h"

namespace rivulet {

// Immutable, thread-safe.
class Download {
 public:
  // Creates the download for models of this layout; null for "f32" or "", with which a version is sent unchanged.
  // NOT_FOUND: as Codec::Create. INVALID_ARGUMENT: as Codec::Create, or a codec that omits most of a model.
  static StatusOr<std::unique_ptr<const Download>> Create(std::string_view codec,
                                                          std::shared_ptr<const ModelLayout> layout);

  struct Sent {
    std::string bytes;
    std::shared_ptr<Model> model;  // the model that every client decodes from `bytes`
  };
  // Deterministic for a seed, version and model, so that a resumed run sends the same bytes. FAILED_PRECONDITION: a
  // value would not be finite after decoding, such as one beyond 65504 with "f16"; names its tensor.
  StatusOr<Sent> Send(const Model& model, uint64_t seed, int64_t version) const;
  // DATA_LOSS: Send never produces such bytes.
  StatusOr<std::shared_ptr<Model>> Decode(std::string_view bytes) const;

 private:
  Download(std::string name, std::unique_ptr<const Codec> codec, std::shared_ptr<const ModelLayout> layout)
      : name_(std::move(name)), codec_(std::move(codec)), layout_(std::move(layout)) {}
  size_t frozen_bytes() const;
  std::string Encode(const Model& model, uint64_t seed, int64_t version) const;
  Status CheckArrives(const Model& model, const Model& arrived) const;

  const std::string name_;
  const std::unique_ptr<const Codec> codec_;
  const std::shared_ptr<const ModelLayout> layout_;
};

}  // namespace rivulet
