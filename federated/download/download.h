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
  // Of models of this layout; null: "f32" or "", by which a version travels as it is. NOT_FOUND, INVALID_ARGUMENT as
  // Codec::Create, and a codec that leaves most of a model out.
  static StatusOr<std::unique_ptr<const Download>> Create(std::string_view codec,
                                                          std::shared_ptr<const ModelLayout> layout);

  struct Sent {
    std::string bytes;
    std::shared_ptr<Model> model;  // what every client makes of them
  };
  // The same for the same seed, version and model: a run that goes on after a kill sends what it sent.
  // FAILED_PRECONDITION: a value that is none any more when it arrives, as beyond 65504 by "f16"; names its tensor.
  StatusOr<Sent> Send(const Model& model, uint64_t seed, int64_t version) const;
  // DATA_LOSS: bytes that Send never gives.
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
