// The fuzzer's program: `rivulet_fuzz TARGET [options of libFuzzer] [CORPUS…]`. Without a target, or with an unknown
// one, it lists them. For scripts/fuzz.sh, which knows where things lie:
//   rivulet_fuzz TARGET --begin FOLDER CORPUS   writes the target's seeds and what CORPUS holds of it (where there is
//   one) rivulet_fuzz TARGET --pack FOLDER CORPUS    writes the smallest inputs of FOLDER as that corpus (corpus.h)
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/target.h"

namespace {

const rivulet::fuzz::Target* g_target = nullptr;

constexpr char kTargetVariable[] = "RIVULET_FUZZ_TARGET";

// An input of 64 KiB that reaches something new is no small one.
constexpr size_t kMostCorpusBytes = 12 << 10;

[[noreturn]] void EndWith(const rivulet::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(status.ok() ? 0 : 1);
}

rivulet::Status WriteInputs(const std::string& folder, const char* kind, const std::vector<std::string>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string path = rivulet::JoinPath(folder, fmt::format("{}-{}", kind, i));
    RIVULET_RETURN_IF_ERROR(rivulet::WriteFileAtomically(rivulet::FileSystem::Default(), path, inputs[i]));
  }
  return absl::OkStatus();
}

rivulet::Status Begin(const std::string& folder, const std::string& corpus) {
  RIVULET_RETURN_IF_ERROR(WriteInputs(folder, "seed", g_target->seeds()));
  if (!rivulet::FileSystem::Default().Exists(corpus)) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> inputs, rivulet::fuzz::ReadCorpus(corpus));
  return WriteInputs(folder, "corpus", inputs);
}

}  // namespace

// libFuzzer's own names.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  // Processes that libFuzzer starts itself, to merge corpora, get the options alone: their target is left to them here.
  const char* const inherited = std::getenv(kTargetVariable);
  const bool named = *argc > 1 && (*argv)[1][0] != '-';
  const std::string name = named ? (*argv)[1] : inherited != nullptr ? inherited : "";
  for (const rivulet::fuzz::Target& target : rivulet::fuzz::Targets()) {
    if (target.name == name) g_target = &target;
  }
  if (g_target == nullptr) {
    for (const rivulet::fuzz::Target& target : rivulet::fuzz::Targets()) std::puts(target.name.c_str());
    std::exit(name.empty() ? 0 : 2);
  }
  const std::string command = *argc == 5 ? (*argv)[2] : "";
  if (command == "--begin") EndWith(Begin((*argv)[3], (*argv)[4]));
  if (command == "--pack") EndWith(rivulet::fuzz::PackCorpus((*argv)[3], kMostCorpusBytes, (*argv)[4]).status());
  if (!named) return 0;
  setenv(kTargetVariable, name.c_str(), 1);
  for (int i = 1; i + 1 < *argc; ++i) (*argv)[i] = (*argv)[i + 1];
  --*argc;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  g_target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

// Three times of four the target's own change, with libFuzzer's for what may be anything within it.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::minstd_rand choice(seed);
  if (!g_target->change || choice() % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  std::mt19937 random(seed);
  const std::string changed =
      g_target->change({reinterpret_cast<const char*>(data), size}, random, [](std::string_view bytes) {
        constexpr size_t kMore = 64;
        std::string buffer(bytes);
        buffer.resize(bytes.size() + kMore);
        buffer.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(buffer.data()), bytes.size(), buffer.size()));
        return buffer;
      });
  if (changed.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
