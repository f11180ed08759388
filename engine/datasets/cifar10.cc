#include "engine/datasets/cifar10.h"

#include <algorithm>
#include <vector>

#include "engine/datasets/cifar_records.h"
#include "engine/datasets/new_dataset.h"

namespace rivulet {
namespace {

constexpr CifarLabel kLabels10[] = {{"label", 9}};

StatusOr<std::vector<std::string>> FindFiles(FileSystem& fs, const std::string& folder, std::string_view set) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<std::string> names, fs.List(folder));
  std::erase_if(names, [&](const std::string& name) {
    return !name.starts_with(set) || !(name.ends_with(".bin") || name.ends_with(".bin.gz"));
  });
  std::sort(names.begin(), names.end());
  if (names.empty()) return NotFound("{}: no {}*.bin or {}*.bin.gz in this folder", folder, set, set);
  return names;
}

}  // namespace

StatusOr<Cifar10Counts> ImportCifar10(FileSystem& fs, const std::string& from, const std::string& out,
                                      const DataProgress& progress) {
  // Before anything is made: a missing file is the likeliest mistake.
  RIVULET_ASSIGN_OR_RETURN(const auto train_files, FindFiles(fs, from, "data_batch"));
  RIVULET_ASSIGN_OR_RETURN(const auto test_files, FindFiles(fs, from, "test_batch"));
  RIVULET_ASSIGN_OR_RETURN(const auto files, NewDataset::Create(fs, out, true));
  for (const std::string& name : train_files)
    RIVULET_RETURN_IF_ERROR(AppendCifarRecords(JoinPath(from, name), kLabels10, progress, files->train()));
  for (const std::string& name : test_files)
    RIVULET_RETURN_IF_ERROR(AppendCifarRecords(JoinPath(from, name), kLabels10, progress, files->test()));
  const Cifar10Counts counts{files->train().records(), files->test().records()};
  RIVULET_RETURN_IF_ERROR(files->Publish());
  return counts;
}

}  // namespace rivulet
