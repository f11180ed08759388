#include "simulations/partition_files.h"

#include "engine/data/tfrecord.h"

namespace rivulet {

StatusOr<std::vector<std::string>> WritePartitionFiles(FileSystem& fs, const Dataset& data,
                                                       std::span<const ClientShare> shares, const std::string& folder) {
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
  std::string record;
  for (const ClientShare& share : shares) {
    paths.push_back(JoinPath(folder, share.client_id + ".tfrecord"));
    RIVULET_ASSIGN_OR_RETURN(const auto writer, RecordWriter::Create(fs, paths.back()));
    for (const uint32_t example : share.examples) {
      RIVULET_RETURN_IF_ERROR(data.Read(example, record));
      RIVULET_RETURN_IF_ERROR(writer->Append(record));
    }
    RIVULET_RETURN_IF_ERROR(writer->Finish());
    RIVULET_RETURN_IF_ERROR(writer->Publish());
  }
  return paths;
}

}  // namespace rivulet
