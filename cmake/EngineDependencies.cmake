# The libraries of the engine alone, for its own build and for programs that use the installed package
# (cmake/RivuletConfig.cmake.in). All come from the distribution's packages (docs/internals/building.md).
include(CMakeFindDependencyMacro)
find_dependency(Threads)
# The distribution's oneDNN runs on GCC's OpenMP library. A program of clang links that one too: clang's own would be a
# second library beside it, and a number of threads that is set there would not reach oneDNN.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  find_library(RIVULET_GOMP_LIBRARY NAMES gomp libgomp.so.1 REQUIRED)
else()
  find_dependency(OpenMP COMPONENTS CXX)
  set(RIVULET_GOMP_LIBRARY ${OpenMP_CXX_LIBRARIES})
endif()
find_dependency(Protobuf)
find_dependency(absl CONFIG)
find_dependency(OpenSSL)
find_dependency(ZLIB)
find_dependency(Eigen3 NO_MODULE)
find_dependency(hwy CONFIG)
find_dependency(fmt CONFIG)
find_dependency(nlohmann_json CONFIG)
# Folders of images are read where these are there, each its own format.
find_package(PNG QUIET)
find_package(JPEG QUIET)

# oneDNN's own CMake files ask for OpenCL headers that a CPU build does not need. Imported targets, because their paths
# are this machine's and are looked up again where the package is used.
if(NOT TARGET rivulet_dnnl)
  find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  # Only OpenMP's library: -fopenmp defines a macro that our precompiled headers, made without it, refuse.
  add_library(rivulet_openmp INTERFACE IMPORTED)
  target_link_libraries(rivulet_openmp INTERFACE ${RIVULET_GOMP_LIBRARY})
  add_library(rivulet_dnnl INTERFACE IMPORTED)
  target_include_directories(rivulet_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
  target_link_libraries(rivulet_dnnl INTERFACE ${DNNL_LIBRARY} rivulet_openmp)
endif()
