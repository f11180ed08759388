// The server's state after a version: the model, the optimiser's flat vectors ("server/m"), and numbers
// (federated/numbers). Each version is one safetensors file with all of it, so that a run resumes from one file. The
// model_digest that clients use covers the model alone.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "engine/base/status.h"
#include "federated/numbers/server_numbers.h"
#include "federated/weights/model.h"

namespace rivulet {

// Prefix of the names of its flat vectors.
inline constexpr std::string_view kServerPrefix = "server/";
// Metadata key of the numbers' text in its file.
inline constexpr char kServerNumbersKey[] = "rivulet.server_numbers";

// Copies share the contents and are cheap.
struct ServerState {
  std::shared_ptr<const Model> model;
  Digest digest;                                           // of `model`
  std::shared_ptr<const ServerFlats> flats;                // null: none
  std::shared_ptr<const ServerNumbers> numbers = nullptr;  // for the tasks of this version; null: none

  // A vector in wire order, one value for each trainable element. Empty: no vector of that name.
  std::span<const float> flat(std::string_view name) const;
  // The bytes of "server/<name>" that clients receive.
  std::string_view broadcast(std::string_view name) const;
};

// Reads a version's file. Errors as ModelFromSafetensors. DATA_LOSS: flat vectors or numbers do not match the stated
// checksums. INVALID_ARGUMENT: a vector is not float32 or not as long as the trainable elements of `layout`.
StatusOr<ServerState> ReadServerState(std::shared_ptr<const ModelLayout> layout, std::string_view bytes);

}  // namespace rivulet
