# Every library the build may use, found once. All come from the distribution's packages (see docs/building.md).
include(${CMAKE_CURRENT_LIST_DIR}/EngineDependencies.cmake)
find_package(gRPC REQUIRED CONFIG)
find_package(SQLite3 REQUIRED)
find_package(spdlog REQUIRED CONFIG)
find_package(tomlplusplus REQUIRED CONFIG)
find_package(CLI11 REQUIRED CONFIG)
