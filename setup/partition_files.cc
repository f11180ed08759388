#include "setup/partition_files.h"

#include "engine/data/tfrecord.h"

namespace rivulet {

StatusOr<std::vector<std::string>> WritePartitionFiles(FileSystem& fs, const Dataset& data, const Shares& shares,
                                                       const std::string& folder, const DataProgress& progress) {
  for (int64_t client = 0; client < shares.size(); ++client) {
    const std::string id = shares.NameAt(client);
    if (id.empty() || id.starts_with('.') || id.size() > 200 || id.find('/') != std::string::npos ||
        id.find('\0') != std::string::npos) {
      return InvalidArgument("the client '{}' cannot have a file of its name in '{}'; partition by another key", id,
                             folder);
    }
  }
  RIVULET_RETURN_IF_ERROR(fs.CreateFolders(folder));
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<RecordWriter>> files;
  std::string record;
  for (int64_t client = 0; client < shares.size(); ++client) {
    if (progress) RIVULET_RETURN_IF_ERROR(progress(client, shares.size()));
    if (shares.ExamplesOf(client).empty()) continue;
    paths.push_back(JoinPath(folder, shares.NameAt(client) + ".tfrecord"));
    RIVULET_ASSIGN_OR_RETURN(auto writer, RecordWriter::Create(fs, paths.back()));
    for (const uint32_t example : shares.ExamplesOf(client)) {
      RIVULET_RETURN_IF_ERROR(data.Read(example, record));
      RIVULET_RETURN_IF_ERROR(writer->Append(record));
    }
    RIVULET_RETURN_IF_ERROR(writer->Finish());
    files.push_back(std::move(writer));
  }
  for (size_t i = 0; i < files.size(); ++i) RIVULET_RETURN_IF_ERROR(files[i]->Publish(i + 1 == files.size()));
  return paths;
}

}  // namespace rivulet
