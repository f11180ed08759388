#include "engine/io/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "engine/base/join.h"
#include "engine/base/temporary_name.h"
#include "engine/io/atomic_file.h"
#include "engine/io/crc32c.h"
#include "engine/io/safetensors.h"

namespace rivulet {
namespace {

constexpr std::string_view kCheckpointPrefix = "checkpoint-", kCheckpointEnding = ".safetensors";
constexpr std::string_view kStepKey = "rivulet.step", kChecksumsKey = "rivulet.crc32c", kCallersKey = "user.";

std::span<const std::byte> BytesOf(const TensorView& tensor) { return {tensor.data, tensor.bytes()}; }

// The step in a file's name; -1 for other files.
int64_t StepOf(std::string_view name) {
  if (!name.starts_with(kCheckpointPrefix) || !name.ends_with(kCheckpointEnding)) return -1;
  const std::string_view digits =
      name.substr(kCheckpointPrefix.size(), name.size() - kCheckpointPrefix.size() - kCheckpointEnding.size());
  int64_t step = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return error == std::errc() && end == digits.data() + digits.size() ? step : -1;
}

}  // namespace

CheckpointFolder::CheckpointFolder(FileSystem& fs, std::string folder, int keep)
    : fs_(fs), folder_(std::move(folder)), keep_(std::max(keep, 1)) {}

std::string CheckpointFolder::PathOf(int64_t step) const {
  return JoinPath(folder_, fmt::format("{}{:012}{}", kCheckpointPrefix, step, kCheckpointEnding));
}

// Old states go only when the new one is under its name and synced, so that at every moment the folder holds at least
// one that is whole. The format's own header has no checksums; they stand in its metadata, where other readers of the
// format pass them over.
Status CheckpointFolder::Save(int64_t step, std::span<const NamedTensorView> tensors,
                              const std::map<std::string, std::string>& metadata) {
  if (step < 0) return InvalidArgument("a checkpoint's step is at least 0, not {}", step);
  std::vector<SafetensorsEntry> entries;
  std::string checksums;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, tensor.dtype, tensor.shape, BytesOf(tensor)});
    checksums += fmt::format("{}{:08x}", checksums.empty() ? "" : " ", Crc32c(BytesOf(tensor)));
  }
  std::map<std::string, std::string> all = {{std::string(kStepKey), fmt::format("{}", step)},
                                            {std::string(kChecksumsKey), checksums}};
  for (const auto& [key, value] : metadata) all[std::string(kCallersKey) + key] = value;
  RIVULET_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(entries, all));

  RIVULET_RETURN_IF_ERROR(fs_.CreateFolders(folder_));
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Create(fs_, PathOf(step)));
  RIVULET_RETURN_IF_ERROR(file->Append(header));
  for (const SafetensorsEntry& entry : entries) RIVULET_RETURN_IF_ERROR(file->Append(entry.data));
  RIVULET_RETURN_IF_ERROR(file->Commit());

  // Failures of the following steps are harmless: the next Save repeats them.
  const StatusOr<std::vector<std::string>> names = fs_.List(folder_);
  if (!names.ok()) return absl::OkStatus();
  std::vector<int64_t> steps;
  for (const std::string& name : *names)
    if (const int64_t each = StepOf(name); each >= 0) steps.push_back(each);
  RemoveTemporaries(fs_, folder_, [](std::string_view target) { return StepOf(target) >= 0; });
  std::ranges::sort(steps);
  for (size_t i = 0; i + static_cast<size_t>(keep_) < steps.size(); ++i)
    if (steps[i] != step) fs_.Remove(PathOf(steps[i])).IgnoreError();
  return absl::OkStatus();
}

StatusOr<std::vector<int64_t>> CheckpointFolder::Steps() const {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_.List(folder_));
  std::vector<int64_t> steps;
  for (const std::string& name : names)
    if (const int64_t step = StepOf(name); step >= 0) steps.push_back(step);
  std::ranges::sort(steps);
  return steps;
}

StatusOr<Checkpoint> CheckpointFolder::Load(int64_t step) const {
  const std::string path = PathOf(step);
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, fs_.ReadAll(path));
  const StatusOr<SafetensorsContent> content = ParseSafetensors(bytes);
  if (!content.ok()) return DataLoss("{}: {}", path, Message(content.status()));
  const auto stated = content->metadata.find(std::string(kStepKey));
  const auto checksums = content->metadata.find(std::string(kChecksumsKey));
  if (stated == content->metadata.end() || checksums == content->metadata.end() ||
      stated->second != fmt::format("{}", step))
    return DataLoss("{}: is not the checkpoint of step {}", path, step);
  Checkpoint checkpoint;
  checkpoint.step = step;
  std::string found;
  for (const SafetensorsEntry& entry : content->tensors) {
    found += fmt::format("{}{:08x}", found.empty() ? "" : " ", Crc32c(entry.data));
    Tensor tensor(entry.dtype, entry.shape);
    if (!entry.data.empty()) std::memcpy(tensor.data(), entry.data.data(), entry.data.size());
    checkpoint.tensors.emplace_back(entry.name, std::move(tensor));
  }
  if (found != checksums->second)
    return DataLoss("{}: its tensors have not the checksums that were saved with them", path);
  for (const auto& [key, value] : content->metadata)
    if (key.starts_with(kCallersKey)) checkpoint.metadata[key.substr(kCallersKey.size())] = value;
  return checkpoint;
}

// A damaged newest checkpoint must not end the training: the previous one is used, and the result lists the damaged
// files.
StatusOr<Checkpoint> CheckpointFolder::Latest() const {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, Steps());
  std::vector<std::string> damaged;
  for (size_t i = steps.size(); i-- > 0;) {
    StatusOr<Checkpoint> checkpoint = Load(steps[i]);
    if (checkpoint.ok()) {
      checkpoint->damaged = std::move(damaged);
      return checkpoint;
    }
    damaged.emplace_back(Message(checkpoint.status()));
  }
  if (damaged.empty()) return NotFound("{} holds no checkpoint", folder_);
  return NotFound("{} holds no checkpoint that is whole: {}", folder_, Join(damaged, "; "));
}

}  // namespace rivulet
