#include "setup/partition_files.h"

#include "engine/data/tfrecord.h"

namespace rivulet {

StatusOr<std::vector<std::string>> WritePartitionFiles(FileSystem& fs, const Dataset& data,
                                                       std::span<const ClientShare> shares, const std::string& folder,
                                                       const DataProgress& progress) {
  for (const ClientShare& share : shares) {
    const std::string& id = share.client_id;
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
  for (const ClientShare& share : shares) {
    if (progress) {
      RIVULET_RETURN_IF_ERROR(progress(static_cast<int64_t>(paths.size()), static_cast<int64_t>(shares.size())));
    }
    paths.push_back(JoinPath(folder, share.client_id + ".tfrecord"));
    RIVULET_ASSIGN_OR_RETURN(auto writer, RecordWriter::Create(fs, paths.back()));
    for (const uint32_t example : share.examples) {
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
