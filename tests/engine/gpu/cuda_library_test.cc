// The library that is opened for a GPU, and the errors for invalid ones.
#include "engine/gpu/cuda_library.h"

#include <stdlib.h>

#include <set>
#include <string>

#include "engine/gpu/gpu_device.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::StatusIs;

std::set<std::string> KernelNames(const RivuletGpuApi& api) {
  std::set<std::string> names;
  for (size_t i = 0; i < api.kernel_count; ++i) {
    if (const std::string name = api.kernels[i].name; !name.starts_with("test_")) names.insert(name);
  }
  return names;
}

TEST(GpuLibraryTest, Places_AreBesideTheProgramAndWhereItIsInstalled_OrWhatIsNamed) {
  ::unsetenv("RIVULET_CUDA_LIBRARY");
  EXPECT_THAT(GpuLibraryPlaces(),
              ElementsAre(EndsWith("/librivulet_cuda.so"), EndsWith("/rivulet/librivulet_cuda.so")));
  ::setenv("RIVULET_CUDA_LIBRARY", "/there/it.so", 1);
  EXPECT_THAT(GpuLibraryPlaces(), ElementsAre("/there/it.so"));
  ::unsetenv("RIVULET_CUDA_LIBRARY");
}

TEST(GpuLibraryTest, FileThatIsNotThere_IsNotFound) {
  EXPECT_THAT(OpenGpuLibrary("/nowhere/librivulet_cuda.so"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(GpuLibraryTest, FilesThatAreNoBackEnd_AreNamedWithTheMend) {
  EXPECT_THAT(OpenGpuLibrary("/proc/self/cmdline"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("'/proc/self/cmdline' cannot be opened")));
  EXPECT_THAT(OpenGpuLibrary(RIVULET_FOREIGN_LIBRARY),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has no function rivulet_gpu_api")));
  EXPECT_THAT(OpenGpuLibrary(RIVULET_STALE_LIBRARY),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("install both of one version")));
}

// As a program opens it, with functions of its own of the same names.
TEST(GpuLibraryTest, EmulatedLibrary_HasItsOwnState) {
  ASSERT_OK_AND_ASSIGN(const RivuletGpuApi* api, OpenGpuLibrary(RIVULET_EMULATED_LIBRARY));
  EXPECT_STREQ(api->backend, "emulated");
  EXPECT_NE(api, &gpu::EmulatedBackend());
  EXPECT_EQ(KernelNames(*api), KernelNames(gpu::EmulatedBackend()));
  ASSERT_OK_AND_ASSIGN(const auto device, GpuDevice::Open(*api, 0));
  EXPECT_THAT(device->NewStream(), testing::IsOk());
}

#ifdef RIVULET_CUDA_BUILT
// What NVIDIA's libraries compute is CUDA's alone, and there as far as their headers were.
std::set<std::string> OwnKernels(const RivuletGpuApi& api) {
  std::set<std::string> names = KernelNames(api);
  std::erase_if(names, [](const std::string& name) { return name.starts_with("library_"); });
  return names;
}

// Also where there is no driver: the library opens, and says that there is no device and why.
TEST(GpuLibraryTest, CudaLibrary_HasTheEmulatedDevicesKernels_AndSaysWhatIsThere) {
  ASSERT_OK_AND_ASSIGN(const RivuletGpuApi* api, OpenGpuLibrary(RIVULET_CUDA_BUILT));
  EXPECT_THAT(api->backend, ::testing::StartsWith("CUDA 1"));
  EXPECT_EQ(OwnKernels(*api), KernelNames(gpu::EmulatedBackend()));
  for (size_t i = 0; i < api->kernel_count; ++i) {
    for (size_t j = 0; j < gpu::EmulatedBackend().kernel_count; ++j) {
      const RivuletGpuKernel& other = gpu::EmulatedBackend().kernels[j];
      if (std::string(other.name) == api->kernels[i].name) {
        EXPECT_EQ(api->kernels[i].argument_bytes, other.argument_bytes) << other.name;
      }
    }
  }
  size_t count = 0;
  const RivuletGpuLibrary* const libraries = api->libraries(&count);
  std::vector<std::string> opened;
  for (size_t i = 0; i < count; ++i) opened.push_back(libraries[i].name);
  EXPECT_THAT(opened, ::testing::ElementsAre("cuBLASLt", "NCCL", "CUPTI"));
  EXPECT_STREQ(libraries[1].missing, api->sum_missing());
  int32_t devices = -1;
  const char* why = nullptr;
  EXPECT_EQ(api->count(&devices, &why), 0);
  EXPECT_GE(devices, 0);
  EXPECT_EQ(devices == 0, !std::string(why).empty());
  if (devices == 0) {
    EXPECT_THAT(GpuDevice::Open(*api, 0), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                   AllOf(HasSubstr("there is no GPU 0 here"), HasSubstr(why))));
  }
}
#endif

}  // namespace
}  // namespace rivulet
