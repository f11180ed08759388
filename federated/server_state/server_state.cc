#include "federated/server_state/server_state.h"

#include <cstring>

#include "engine/io/safetensors.h"

namespace rivulet {

std::span<const float> ServerState::flat(std::string_view name) const {
  if (flats == nullptr) return {};
  const auto found = flats->find(name);
  if (found == flats->end()) return {};
  return {reinterpret_cast<const float*>(found->second.data()), found->second.size() / sizeof(float)};
}

std::string_view ServerState::broadcast(std::string_view name) const {
  const std::span<const float> values = flat(fmt::format("{}{}", kServerPrefix, name));
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

StatusOr<ServerState> ReadServerState(std::shared_ptr<const ModelLayout> layout, std::string_view bytes) {
  ServerState state;
  RIVULET_ASSIGN_OR_RETURN(state.model, ModelFromSafetensors(layout, bytes));
  state.digest = state.model->ComputeDigest();
  RIVULET_ASSIGN_OR_RETURN(const SafetensorsContent content, ParseSafetensors(bytes));
  const Shape shape{layout->elements(Segment::kTrainable)};
  ServerFlats flats;
  for (const std::string& name : ServerTensors(content.metadata)) {
    const SafetensorsEntry* entry = content.Find(name);
    if (entry == nullptr) return DataLoss("the model file lists the server's tensor '{}', but does not have it", name);
    if (entry->dtype != DType::kFloat32 || entry->shape != shape) {
      return InvalidArgument("tensor '{}' of the model file is {}{}; the server's must be float32{}", name,
                             Name(entry->dtype), entry->shape.ToString(), shape.ToString());
    }
    AlignedBuffer values(entry->data.size());
    std::memcpy(values.data(), entry->data.data(), entry->data.size());
    flats.emplace(name, std::move(values));
  }
  if (const auto numbers = content.metadata.find(kServerNumbersKey); numbers != content.metadata.end()) {
    RIVULET_ASSIGN_OR_RETURN(ServerNumbers read, ParseServerNumbers(numbers->second));
    state.numbers = std::make_shared<const ServerNumbers>(std::move(read));
  }
  if (flats.empty()) return state;
  // The digest covers the model alone, but a corrupted bit in an optimiser's vector would change every later model.
  const auto stated = content.metadata.find(kServerChecksumsKey);
  if (stated == content.metadata.end() || stated->second != ServerChecksums(flats)) {
    return DataLoss("the checksums of the server's tensors in the model file are not those that it states");
  }
  state.flats = std::make_shared<const ServerFlats>(std::move(flats));
  return state;
}

}  // namespace rivulet
