#include "engine/io/new_folder.h"

#include <unistd.h>

namespace rivulet {

StatusOr<std::unique_ptr<NewFolder>> NewFolder::Create(FileSystem& fs, const std::string& path) {
  std::unique_ptr<NewFolder> folder(new NewFolder);
  std::vector<std::string> missing;
  for (std::string each = path; !each.empty() && !fs.Exists(each);) {
    missing.push_back(each);
    const size_t slash = each.rfind('/');
    if (slash == std::string::npos || slash == 0) break;
    each.resize(slash);
  }
  folder->made_ = std::move(missing);
  RIVULET_RETURN_IF_ERROR(fs.CreateFolders(path));
  return folder;
}

NewFolder::~NewFolder() {
  // rmdir removes only empty folders: the name may meanwhile belong to another file or link.
  for (const std::string& folder : made_) (void)rmdir(folder.c_str());
}

}  // namespace rivulet
