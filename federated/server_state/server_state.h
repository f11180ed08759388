// The server's state after a version: the model, the optimiser's flat vectors ("server/m"), and numbers
// (federated/numbers). One safetensors file a version has all of it, so that a run resumes from one file. The
// model_digest that clients use covers the model alone.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "engine/base/status.h"
#include "federated/numbers/server_numbers.h"
#include "federated/weights/model.h"

namespace rivulet {

// What the names of its flat vectors begin with.
inline constexpr std::string_view kServerPrefix = "server/";
// The text of its numbers in its file.
inline constexpr char kServerNumbersKey[] = "rivulet.server_numbers";

// Shares what it holds: a copy costs nothing.
struct ServerState {
  std::shared_ptr<const Model> model;
  Digest digest;                                           // of `model`
  std::shared_ptr<const ServerFlats> flats;                // null: none
  std::shared_ptr<const ServerNumbers> numbers = nullptr;  // that go with its tasks; null: none

  // In wire order, one value for each trainable element. Empty: there is none of that name.
  std::span<const float> flat(std::string_view name) const;
  // What clients get of "server/<name>": its bytes.
  std::string_view broadcast(std::string_view name) const;
};

// Reads a version's file. Errors as ModelFromSafetensors, and DATA_LOSS: flat vectors or numbers whose checksums are
// not those stated; INVALID_ARGUMENT: one that is not float32 or not as long as the trainable elements of `layout`.
StatusOr<ServerState> ReadServerState(std::shared_ptr<const ModelLayout> layout, std::string_view bytes);

}  // namespace rivulet
