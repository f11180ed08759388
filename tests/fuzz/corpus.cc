#include "tests/fuzz/corpus.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/file_system.h"
#include "engine/data/tfrecord.h"

namespace rivulet::fuzz {

StatusOr<std::vector<std::string>> ReadCorpus(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<RecordReader> reader, RecordReader::Open(path));
  std::vector<std::string> inputs;
  for (std::string input;;) {
    RIVULET_ASSIGN_OR_RETURN(const bool more, reader->Next(input));
    if (!more) return inputs;
    inputs.push_back(input);
  }
}

StatusOr<size_t> PackCorpus(const std::string& folder, size_t most_bytes, const std::string& path) {
  FileSystem& files = FileSystem::Default();
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  std::vector<std::pair<std::string, std::string>> inputs;  // name, bytes
  for (const std::string& name : names) {
    RIVULET_ASSIGN_OR_RETURN(std::string bytes, files.ReadAll(JoinPath(folder, name)));
    inputs.emplace_back(name, std::move(bytes));
  }
  std::ranges::stable_sort(inputs, {}, [](const auto& input) { return input.second.size(); });
  if (inputs.empty()) return FailedPrecondition("there is no input in '{}' to keep", folder);
  std::string packed;
  size_t count = 0, size = 0;
  for (const auto& [name, bytes] : inputs) {
    size += bytes.size();
    if (size > most_bytes) break;
    AppendRecordFrame(bytes, packed);
    ++count;
  }
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(files, path, packed));
  return count;
}

}  // namespace rivulet::fuzz
