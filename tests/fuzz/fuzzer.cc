// The fuzzer's program: `rivulet_fuzz TARGET [options of libFuzzer] [CORPUS…]`. Without a target, or with an unknown
// one, it lists them; `rivulet_fuzz TARGET --seeds FOLDER` writes the target's seeds to begin with.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/base/file_system.h"
#include "tests/fuzz/target.h"

namespace {

const rivulet::fuzz::Target* g_target = nullptr;

[[noreturn]] void WriteSeeds(const std::string& folder) {
  int number = 0;
  for (const std::string& seed : g_target->seeds()) {
    const std::string path = folder + "/seed-" + std::to_string(number++);
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    if (file == nullptr || std::fwrite(seed.data(), 1, seed.size(), file) != seed.size() || std::fclose(file) != 0) {
      std::perror(path.c_str());
      std::exit(1);
    }
  }
  std::exit(0);
}

}  // namespace

// libFuzzer's own names.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string name = *argc > 1 ? (*argv)[1] : "";
  for (const rivulet::fuzz::Target& target : rivulet::fuzz::Targets()) {
    if (target.name == name) g_target = &target;
  }
  if (g_target == nullptr) {
    for (const rivulet::fuzz::Target& target : rivulet::fuzz::Targets()) std::puts(target.name.c_str());
    std::exit(name.empty() ? 0 : 2);
  }
  if (*argc == 4 && std::string((*argv)[2]) == "--seeds") WriteSeeds((*argv)[3]);
  for (int i = 1; i + 1 < *argc; ++i) (*argv)[i] = (*argv)[i + 1];
  --*argc;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  g_target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
