// rivulet data fetch: known data sets from their sources, each file checked by its digest.
#include <algorithm>
#include <fstream>
#include <memory>
#include <vector>

#include "cli/data/commands.h"
#include "cli/data/download.h"
#include "cli/data/fetchable.h"
#include "cli/long_work.h"
#include "cli/shell_quote.h"
#include "cli/terminal.h"
#include "engine/base/file_system.h"
#include "engine/base/nearest.h"
#include "engine/base/quantities.h"
#include "engine/base/sha256.h"
#include "engine/datasets/mnist.h"
#include "engine/datasets/shakespeare.h"

namespace rivulet {
namespace {

struct FetchOptions {
  std::string name, out, mirror;
};

StatusOr<std::string> DigestOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("'{}' cannot be read", path);
  Sha256 hash;
  std::vector<char> block(1 << 20);
  while (file.read(block.data(), std::ssize(block)) || file.gcount() > 0) {
    hash.Update(std::string_view(block.data(), static_cast<size_t>(file.gcount())));
  }
  if (file.bad()) return DataLoss("'{}' cannot be read to its end", path);
  return std::move(hash).Finish().Hex();
}

// "DIR/original/input.txt (1.12 MB, sha256 …) from URL", a line per file.
std::string WhereTheyGo(const FetchableSet& set, const std::string& folder) {
  std::string lines;
  for (const FetchableFile& file : set.files) {
    lines += fmt::format("\n    {} ({} bytes, sha256 {}) from {}", JoinPath(folder, file.name), file.bytes, file.sha256,
                         file.urls[0]);
  }
  return lines;
}

// OK if the file exists and is correct; NOT_FOUND if it does not exist.
Status CheckFile(const FetchableFile& file, const std::string& path) {
  if (!FileSystem::Default().Exists(path)) return NotFound("'{}' is not there", path);
  RIVULET_ASSIGN_OR_RETURN(const std::string found, DigestOfFile(path));
  if (found == file.sha256) return absl::OkStatus();
  return FailedPrecondition("'{}' is another file: its sha256 is {}, and that of the data set {}; move it away", path,
                            found, file.sha256);
}

Status FetchFrom(const std::string& url, const FetchableFile& file, const std::string& path) {
  const std::string partial = path + ".incomplete";
  RIVULET_RETURN_IF_ERROR(
      Download(url, partial, file.bytes, LongWork("fetching " + file.name, /*bytes=*/true).progress()));
  RIVULET_ASSIGN_OR_RETURN(const std::string found, DigestOfFile(partial));
  if (found != file.sha256) {
    RIVULET_RETURN_IF_ERROR(FileSystem::Default().Remove(partial));
    return DataLoss("{} has a file with sha256 {}, and not {}; nothing of it is kept", url, found, file.sha256);
  }
  RIVULET_RETURN_IF_ERROR(FileSystem::Default().Rename(partial, path));
  return FileSystem::Default().SyncFolder(FolderOf(path));
}

// Fetches from the first source that has it.
Status FetchFile(const FetchableFile& file, const std::string& path, const std::string& mirror) {
  const Status there = CheckFile(file, path);
  const std::string partial = path + ".incomplete";
  // The user copied the whole file to the place of a partial download.
  if (there.ok() && FileSystem::Default().Exists(partial)) return FileSystem::Default().Remove(partial);
  if (!absl::IsNotFound(there)) return there;
  const std::vector<std::string> urls = mirror.empty() ? file.urls : std::vector{JoinPath(mirror, file.name)};
  Status first;
  for (const std::string& url : urls) {
    const Status status = FetchFrom(url, file, path);
    if (status.ok() || absl::IsCancelled(status)) return status;
    if (first.ok()) first = status;
  }
  return first;
}

StatusOr<std::pair<int64_t, int64_t>> Import(const FetchableSet& set, const std::string& from, const std::string& out) {
  FileSystem& files = FileSystem::Default();
  if (set.import == "shakespeare") {
    RIVULET_ASSIGN_OR_RETURN(const auto counts, ImportShakespeare(files, JoinPath(from, set.files[0].name), out,
                                                                  LongWork("importing " + from).progress()));
    return std::pair(counts.train, counts.test);
  }
  RIVULET_ASSIGN_OR_RETURN(const auto counts, ImportMnist(files, from, out, LongWork("importing " + from).progress()));
  return std::pair(counts.train, counts.test);
}

Status ListFetchable() {
  for (const FetchableSet& set : FetchableSets()) {
    int64_t bytes = 0;
    for (const FetchableFile& file : set.files) bytes += file.bytes;
    fmt::print("{:<16} {} in {} {}: {}\n{:<16} digests: {}\n", set.name, BytesText(bytes), set.files.size(),
               set.files.size() == 1 ? "file" : "files", set.about, "", set.pinned_by);
  }
  return absl::OkStatus();
}

StatusOr<const FetchableSet*> FindSet(const std::string& name) {
  std::vector<std::string> names;
  for (const FetchableSet& set : FetchableSets()) {
    if (set.name == name) return &set;
    names.push_back(set.name);
  }
  return UsageError("there is no data set '{}' to fetch; 'rivulet data fetch' lists them.{}", Shortened(name),
                    DidYouMean(name, names));
}

Status Fetch(const FetchOptions& options) {
  if (options.name.empty()) return ListFetchable();
  RIVULET_ASSIGN_OR_RETURN(const FetchableSet* const set, FindSet(options.name));
  if (!options.mirror.empty() && !options.mirror.starts_with("https://") && !options.mirror.starts_with("http://")) {
    return UsageError("--mirror is '{}', and takes an address such as https://mirror.example/mnist",
                      Shortened(options.mirror));
  }
  const std::string out = options.out.empty() ? set->name : options.out, folder = JoinPath(out, "original");
  RIVULET_RETURN_IF_ERROR(FileSystem::Default().CreateFolders(folder));
  for (const FetchableFile& file : set->files) {
    const Status fetched = FetchFile(file, JoinPath(folder, file.name), options.mirror);
    if (fetched.ok()) continue;
    if (!absl::IsUnavailable(fetched) && !absl::IsNotFound(fetched) && !absl::IsUnimplemented(fetched)) return fetched;
    return Status(fetched.code(),
                  fmt::format("{}; copy the files there by another way, and the same command uses them{}",
                              Message(fetched), WhereTheyGo(*set, folder)));
  }
  if (set->import.empty()) {
    fmt::print("tar -xzf {} -C {} && rivulet data import {} --from {} --out {}\n",
               ShellQuote(JoinPath(folder, set->files[0].name)), ShellQuote(folder), set->importer,
               ShellQuote(JoinPath(folder, set->unpacked)), ShellQuote(out));
    PrintNote("the files are here and as they have to be; the command above unpacks and imports them", Note::kProgress);
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const auto counts, Import(*set, folder, out));
  fmt::print("{}: {} examples\n{}: {} examples\n", JoinPath(out, "train.tfrecord"), counts.first,
             JoinPath(out, "test.tfrecord"), counts.second);
  return absl::OkStatus();
}

}  // namespace

Command DataFetchCommand() {
  auto options = std::make_shared<FetchOptions>();
  Command fetch{.name = "fetch",
                .summary = "Fetch a known data set over HTTPS, check it, and import it.",
                .example = "rivulet data fetch\n  rivulet data fetch mnist"};
  fetch.OptionalPositional("NAME", &options->name, "the data set to fetch; without it, list all")
      .Option("--out", "DIR", &options->out, "the folder to write to; original files are kept in DIR/original [./NAME]")
      .Option("--mirror", "URL", &options->mirror, "download the files from here; their digests are checked");
  fetch.run = [options] { return Fetch(*options); };
  return fetch;
}

}  // namespace rivulet
