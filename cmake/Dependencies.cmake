# Every library the build may use, found once. All come from the distribution's packages (see docs/internals/building.md).
include(${CMAKE_CURRENT_LIST_DIR}/EngineDependencies.cmake)
# Vector code is not compiled for SSSE3 without SSE4.1, which processors of 2006 and 2007 and a few small ones until 2013 have: they
# run the baseline's. A fuzzer looks at bytes from outside and the thread sanitizer at threads, neither at kernels: they have
# the baseline alone, for most of an hour of clang's less.
if(RIVULET_FUZZ OR RIVULET_SANITIZE MATCHES "thread")
  target_compile_definitions(hwy::hwy INTERFACE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX2|HWY_AVX3|HWY_AVX3_DL)")
else()
  target_compile_definitions(hwy::hwy INTERFACE HWY_DISABLED_TARGETS=HWY_SSSE3)
endif()
find_package(gRPC REQUIRED CONFIG)
find_package(SQLite3 REQUIRED)
find_package(zstd REQUIRED CONFIG)
find_package(spdlog REQUIRED CONFIG)
find_package(tomlplusplus REQUIRED CONFIG)
find_package(CLI11 REQUIRED CONFIG)
