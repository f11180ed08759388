// Weights alone: safetensors and NumPy's .npz.
#include <map>

#include "cli/command.h"
#include "cli/model/format.h"
#include "cli/model/weights_source.h"
#include "engine/base/file_system.h"
#include "engine/base/table.h"
#include "engine/io/atomic_file.h"
#include "engine/io/npz.h"
#include "engine/io/safetensors.h"

namespace rivulet {
namespace {

void PrintWritten(const std::string& out, const NamedWeights& weights, bool json) {
  int64_t elements = 0, bytes = 0;
  for (const auto& [name, tensor] : weights) {
    elements += tensor.elements();
    bytes += static_cast<int64_t>(tensor.bytes());
  }
  const Fields fields = {
      {"weights", out}, {"tensors", static_cast<int64_t>(weights.size())}, {"elements", elements}, {"bytes", bytes}};
  fmt::print("{}", json ? JsonObject(fields) + "\n" : FieldLines(fields));
}

// Written piece by piece: memory may not have room for a file twice.
Status WriteSafetensorsFile(const std::string& out, const NamedWeights& weights,
                            const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : weights)
    entries.push_back({name, tensor.dtype(), tensor.shape(), {tensor.data(), tensor.bytes()}});
  RIVULET_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(entries, metadata));
  RIVULET_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(FileSystem::Default(), out));
  RIVULET_RETURN_IF_ERROR(file->Append(header));
  for (const SafetensorsEntry& entry : entries) RIVULET_RETURN_IF_ERROR(file->Append(entry.data));
  return file->Commit();
}

Status WriteNpzFile(const std::string& out, const NamedWeights& weights) {
  std::vector<std::pair<std::string, TensorView>> arrays;
  for (const auto& [name, tensor] : weights) arrays.emplace_back(name, tensor.view());
  return WriteNpz(FileSystem::Default(), out, arrays);
}

Status ExportSafetensors(const ExportRequest& request) {
  RIVULET_ASSIGN_OR_RETURN(const NamedWeights weights, request.source.weights());
  RIVULET_RETURN_IF_ERROR(WriteSafetensorsFile(request.out, weights, {{"format", "rivulet"}}));
  PrintWritten(request.out, weights, request.json);
  return absl::OkStatus();
}

Status ExportNpz(const ExportRequest& request) {
  RIVULET_ASSIGN_OR_RETURN(const NamedWeights weights, request.source.weights());
  RIVULET_RETURN_IF_ERROR(WriteNpzFile(request.out, weights));
  PrintWritten(request.out, weights, request.json);
  return absl::OkStatus();
}

// Converts weights from one format to the other.
Status ImportWeights(const ImportRequest& request) {
  if (!request.shapes.empty())
    return UsageError("{} has only weights and no input for --shape; leave --shape out", request.file);
  if (!request.values.empty())
    return UsageError("{} has only weights and no input for --value; leave --value out", request.file);
  RIVULET_ASSIGN_OR_RETURN(const WeightsSource source, LoadWeights(request.file));
  if (request.out.ends_with(".npz")) {
    RIVULET_RETURN_IF_ERROR(WriteNpzFile(request.out, source.weights));
  } else if (request.out.ends_with(".safetensors")) {
    RIVULET_RETURN_IF_ERROR(WriteSafetensorsFile(request.out, source.weights, source.metadata));
  } else {
    return UsageError("{} holds weights alone; give --out the name of a .safetensors or .npz file, not '{}'",
                      request.file, request.out);
  }
  PrintWritten(request.out, source.weights, request.json);
  return absl::OkStatus();
}

const RegisterModelFormat kSafetensors({.name = "safetensors",
                                        .endings = {".safetensors"},
                                        .doc = "the weights, which most tools read",
                                        .weights_alone = true,
                                        .write = ExportSafetensors,
                                        .read = ImportWeights});
const RegisterModelFormat kNpz({.name = "npz",
                                .endings = {".npz"},
                                .doc = "the weights, for numpy.load",
                                .weights_alone = true,
                                .write = ExportNpz,
                                .read = ImportWeights});

}  // namespace
}  // namespace rivulet
