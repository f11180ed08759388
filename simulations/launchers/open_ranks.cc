#include "simulations/launchers/open_ranks.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace rivulet {
namespace {

constexpr char kLibrary[] = "librivulet-mpi.so";

// Open MPI's own libraries look it up among all symbols of the process, hence RTLD_GLOBAL. It is never closed, because
// it has threads.
StatusOr<OpenRanksFunction> FindFunction() {
  std::error_code unknown;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  std::string tried;
  for (const std::filesystem::path& path : {folder / kLibrary, folder.parent_path() / "lib" / "rivulet" / kLibrary}) {
    if (!std::filesystem::exists(path, unknown)) {
      tried += fmt::format("{}'{}'", tried.empty() ? "" : " nor ", path.string());
      continue;
    }
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* const function = library == nullptr ? nullptr : dlsym(library, kOpenRanksName);
    if (function != nullptr) return reinterpret_cast<OpenRanksFunction>(function);
    return FailedPrecondition("this process was started as a rank of MPI, and '{}' cannot be opened: {}", path.string(),
                              dlerror());
  }
  return FailedPrecondition(
      "this process was started as a rank of MPI, and there is neither {}; build with Open MPI (libopenmpi-dev), or "
      "start it without mpirun",
      tried);
}

}  // namespace

bool StartedAsRank(const std::function<const char*(const char* name)>& variable) {
  const char* const size = variable("OMPI_COMM_WORLD_SIZE");
  if (size != nullptr) return std::string_view(size) != "1";
  return variable("PMIX_RANK") != nullptr && variable("PMIX_NAMESPACE") != nullptr;
}

StatusOr<std::unique_ptr<Ranks>> OpenRanks() {
  if (!StartedAsRank([](const char* name) -> const char* { return std::getenv(name); })) return nullptr;
  RIVULET_ASSIGN_OR_RETURN(const OpenRanksFunction open, FindFunction());
  std::array<char, 512> error{};
  std::unique_ptr<Ranks> ranks(open(error.data(), static_cast<int>(error.size()) - 1));
  if (ranks == nullptr) return FailedPrecondition("this process was started as a rank of MPI, and {}", error.data());
  if (ranks->size() == 1) return nullptr;
  return ranks;
}

}  // namespace rivulet
