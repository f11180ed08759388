#include "engine/datasets/text.h"

#include <algorithm>
#include <vector>

#include "engine/data/example.h"
#include "engine/datasets/new_dataset.h"
#include "engine/datasets/shakespeare.h"
#include "engine/datasets/source_file.h"

namespace rivulet {
namespace {

constexpr size_t kMaxSourceBytes = 128;  // as of a client's name
constexpr std::string_view kTextEndings[] = {".txt.gz", ".txt", ".gz"};

StatusOr<std::vector<std::string>> TextFiles(FileSystem& fs, const std::string& from) {
  const auto names = fs.List(from);
  if (!names.ok()) return std::vector{from};  // a file, or nothing: opening it will tell
  std::vector<std::string> paths;
  for (const std::string& name : *names)
    if (name.ends_with(".txt") || name.ends_with(".txt.gz")) paths.push_back(JoinPath(from, name));
  if (paths.empty()) return NotFound("{}: no *.txt in this folder", from);
  return paths;
}

std::string SourceName(std::string_view path) {
  path.remove_prefix(std::min(path.size(), path.rfind('/') + 1));
  for (const std::string_view ending : kTextEndings) {
    if (!path.ends_with(ending)) continue;
    path.remove_suffix(ending.size());
    break;
  }
  return std::string(path);
}

StatusOr<std::string> ReadText(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const auto source, SourceFile::Open(path));
  std::string text;
  for (int byte = source->Next(); byte >= 0; byte = source->Next()) {
    if (byte == 0) return DataLoss("{}: a NUL at byte {}, so this is no text", path, source->offset() - 1);
    text.push_back(static_cast<char>(byte));
  }
  RIVULET_RETURN_IF_ERROR(source->status());
  return text;
}

// The passages of a text: its lines, without their ends, or all of it.
std::vector<std::string_view> PassagesOf(std::string_view text, bool by_line) {
  if (!by_line) return text.empty() ? std::vector<std::string_view>() : std::vector{text};
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

}  // namespace

StatusOr<TextCounts> ImportText(FileSystem& fs, const TextOptions& options, const DataProgress& progress) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> paths, TextFiles(fs, options.from));
  TextCounts counts{.sources = static_cast<int64_t>(paths.size())};
  RIVULET_ASSIGN_OR_RETURN(const auto files, NewDataset::Create(fs, options.out, options.test_every > 0));
  int64_t done = 0, row = 0;
  for (const std::string& path : paths) {
    if (progress) RIVULET_RETURN_IF_ERROR(progress(done++, counts.sources));
    const std::string source = SourceName(path);
    if (source.empty() || source.size() > kMaxSourceBytes)
      return DataLoss("{}: a name of {} bytes cannot be a client's; give the file one of 1 to {}", path, source.size(),
                      kMaxSourceBytes);
    RIVULET_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
    const std::vector<std::string_view> passages = PassagesOf(text, options.by_line);
    if (passages.empty()) return DataLoss("{}: no text in this file", path);
    for (const std::string_view passage : passages) {
      if (options.by_line) ++row;
      for (const TextWindow& window : WindowsOf({passage})) {
        if (progress && row % 4096 == 0) RIVULET_RETURN_IF_ERROR(progress(done - 1, counts.sources));
        if (!options.by_line) ++row;
        RIVULET_RETURN_IF_ERROR(files->at(row - 1, options.test_every)
                                    .Append(ExampleBuilder()
                                                .Int64s("tokens", window.tokens)
                                                .Int64s("label", window.next)
                                                .Bytes("source", source)
                                                .Serialize()));
      }
    }
  }
  counts.train = files->train().records();
  if (options.test_every > 0) counts.test = files->test().records();
  RIVULET_RETURN_IF_ERROR(files->Publish());
  return counts;
}

}  // namespace rivulet
