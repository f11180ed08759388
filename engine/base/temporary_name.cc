#include "engine/base/temporary_name.h"

#include <sys/stat.h>

#include <random>

namespace rivulet {
namespace {

constexpr std::string_view kBeforeDigits = ".tmp-";
constexpr size_t kDigits = 16;

}  // namespace

// Random, so that nobody else has made a file, a folder or a link of the name before: it is opened to be written.
std::string TemporaryNameOf(std::string_view path) {
  std::random_device device;
  return fmt::format("{}{}{:08x}{:08x}", path, kBeforeDigits, device(), device());
}

std::optional<std::string_view> TargetOfTemporary(std::string_view name) {
  if (name.size() <= kBeforeDigits.size() + kDigits) return std::nullopt;
  const std::string_view digits = name.substr(name.size() - kDigits);
  name.remove_suffix(kDigits);
  if (!name.ends_with(kBeforeDigits) || digits.find_first_not_of("0123456789abcdef") != digits.npos)
    return std::nullopt;
  name.remove_suffix(kBeforeDigits.size());
  return name;
}

void RemoveTemporaries(FileSystem& fs, const std::string& folder,
                       const std::function<bool(std::string_view target)>& ours) {
  const StatusOr<std::vector<std::string>> names = fs.List(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::optional<std::string_view> target = TargetOfTemporary(name);
    if (!target || !ours(*target)) continue;
    const std::string path = JoinPath(folder, name);
    struct stat info;
    if (lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) fs.Remove(path).IgnoreError();
  }
}

}  // namespace rivulet
