#include "engine/base/user_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/stat.h>

#include <charconv>
#include <cstring>
#include <exception>

#include "engine/base/file_system.h"

namespace rivulet {
namespace {

constexpr size_t kLayoutName = 16;  // bytes of a layout by which it is found

// The number in the marker's name, from the file's table of strings. -1 where there is none.
int MarkedAbi(std::string_view file, std::string_view marker) {
  for (size_t at = file.find(marker); at != std::string_view::npos; at = file.find(marker, at + 1)) {
    int abi = 0;
    const char* first = file.data() + at + marker.size();
    const char* last = file.data() + file.size();
    const auto [end, error] = std::from_chars(first, last, abi);
    if (error == std::errc() && end != last && *end == '\0') return abi;
  }
  return -1;
}

// The library's initialisers run here, and may throw. dlopen is declared as if it never did, so it is called through a
// pointer that is not. Null with a reason, or the library.
void* OpenedBy(const std::string& path, std::string* thrown) {
  void* (*volatile const open)(const char*, int) = dlopen;
  try {
    return open(LoaderPath(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  } catch (const std::exception& error) {
    *thrown = fmt::format("its initialisers threw '{}'", error.what());
  } catch (...) {
    *thrown = "its initialisers threw an exception";
  }
  return nullptr;
}

// Whether all is there that the loader would map. It maps a file that was cut as if it were whole, and the process dies
// where it reads behind the end.
bool IsWholeElf(std::string_view file) {
  Elf64_Ehdr header;
  if (file.size() < sizeof(header)) return false;
  std::memcpy(&header, file.data(), sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return false;
  if (header.e_phoff > file.size() || header.e_phnum > (file.size() - header.e_phoff) / sizeof(Elf64_Phdr))
    return false;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, file.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset > file.size() || segment.p_filesz > file.size() - segment.p_offset) return false;
  }
  return true;
}

std::string LoaderError() {
  const char* message = dlerror();
  return message == nullptr ? "no reason given" : message;
}

}  // namespace

Status CheckUserLibrary(const std::string& path, const LibraryInterface& interface) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & S_IWOTH) != 0) {
    return FailedPrecondition(
        "{} has the mode {:04o}, so every user of this machine may put code into it; check its content, and chmod o-w "
        "it",
        path, info.st_mode & 07777);
  }
  RIVULET_ASSIGN_OR_RETURN(const std::string file, FileSystem::Default().ReadAll(path));
  if (!file.starts_with("\177ELF")) return InvalidArgument("{} is not a shared library", path);
  if (!IsWholeElf(file))
    return InvalidArgument("{} is a part of a shared library and not all of it; copy or build it again", path);
  const int abi = MarkedAbi(file, interface.marker);
  if (abi < 0) {
    return InvalidArgument("{} is not a library of {}: one of its files must say {}(\"…\")", path, interface.holds,
                           interface.macro);
  }
  if (abi != interface.abi) {
    return FailedPrecondition(
        "{} was built for version {} of the interface of {}, and this program has version {}; build it again against "
        "this program's headers",
        path, abi, interface.holds, interface.abi);
  }
  const std::string_view layout = interface.layout;
  if (layout.empty() || file.find(layout) != file.npos) return absl::OkStatus();
  const bool other = file.find(layout.substr(0, kLayoutName)) != file.npos;
  return FailedPrecondition(
      "{} was built against {} headers than this program's, with structures of other sizes; build it again against "
      "this program's headers",
      path, other ? "other" : "older");
}

std::string LoaderPath(const std::string& path) { return path.find('/') == std::string::npos ? "./" + path : path; }

StatusOr<std::string> OpenUserLibrary(const std::string& path, const LibraryInterface& interface) {
  std::string thrown;
  void* const handle = OpenedBy(path, &thrown);
  if (handle == nullptr)
    return InvalidArgument("{} cannot be loaded: {}", path, thrown.empty() ? LoaderError() : thrown);
  const auto* const description =
      static_cast<const char*>(dlsym(handle, fmt::format("{}{}", interface.marker, interface.abi).c_str()));
  if (description != nullptr) return std::string(description);
  return InvalidArgument("{} is not a library of {}: it does not export the function that {} defines", path,
                         interface.holds, interface.macro);
}

}  // namespace rivulet
