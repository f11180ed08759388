#include "engine/datasets/cifar100.h"

#include "engine/datasets/cifar_records.h"
#include "engine/datasets/new_dataset.h"

namespace rivulet {
namespace {

constexpr CifarLabel kLabels100[] = {{"coarse_label", 19}, {"label", 99}};

StatusOr<std::string> FindSet(FileSystem& fs, const std::string& folder, const std::string& set) {
  for (const std::string ending : {".bin", ".bin.gz"}) {
    std::string path = JoinPath(folder, set + ending);
    if (fs.Exists(path)) return path;
  }
  return NotFound("{}: no {}.bin or {}.bin.gz in this folder; give the folder cifar-100-binary", folder, set, set);
}

}  // namespace

StatusOr<Cifar100Counts> ImportCifar100(FileSystem& fs, const std::string& from, const std::string& out,
                                        const DataProgress& progress) {
  RIVULET_ASSIGN_OR_RETURN(const std::string train, FindSet(fs, from, "train"));
  RIVULET_ASSIGN_OR_RETURN(const std::string test, FindSet(fs, from, "test"));
  RIVULET_ASSIGN_OR_RETURN(const auto files, NewDataset::Create(fs, out, true));
  RIVULET_RETURN_IF_ERROR(AppendCifarRecords(train, kLabels100, progress, files->train()));
  RIVULET_RETURN_IF_ERROR(AppendCifarRecords(test, kLabels100, progress, files->test()));
  const Cifar100Counts counts{files->train().records(), files->test().records()};
  RIVULET_RETURN_IF_ERROR(files->Publish());
  return counts;
}

}  // namespace rivulet
