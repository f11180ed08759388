# `cmake --install`: the programs, and the package for find_package(Rivulet). Its libraries are the engine and dataflow,
# which link no gRPC, and dataflow_cluster, which does. The federated parts are reached through the program.
include(CMakePackageConfigHelpers)

install(TARGETS rivulet RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/simulations/scenarios/ DESTINATION ${CMAKE_INSTALL_DATADIR}/rivulet/scenarios
        COMPONENT program FILES_MATCHING PATTERN "*.toml" PATTERN "data" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/simulations/papers/ DESTINATION ${CMAKE_INSTALL_DATADIR}/rivulet/papers
        COMPONENT program FILES_MATCHING PATTERN "*.toml" PATTERN "*.json" PATTERN "data" EXCLUDE)
if(TARGET rivulet_mpi)
  install(TARGETS rivulet_mpi LIBRARY DESTINATION lib/rivulet COMPONENT mpi)
endif()
install(TARGETS rivulet-client RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT client)

# What a library of ops or algorithms compiles against: it takes all functions from the program that loads it.
add_library(engine_headers INTERFACE)
set_target_properties(engine_headers PROPERTIES EXPORT_NAME headers)
target_include_directories(engine_headers INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/rivulet>)
target_link_libraries(engine_headers INTERFACE absl::status absl::statusor fmt::fmt)
target_compile_features(engine_headers INTERFACE cxx_std_20)

get_property(packaged GLOBAL PROPERTY RIVULET_PACKAGED)
get_property(RIVULET_REGISTERING GLOBAL PROPERTY RIVULET_PACKAGED_WHOLE)
list(JOIN RIVULET_REGISTERING " " RIVULET_REGISTERING)
install(TARGETS engine_headers ${packaged} proto_graph proto_onnx
        EXPORT RivuletTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/rivulet)
install(EXPORT RivuletTargets NAMESPACE Rivulet:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Rivulet)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/RivuletConfig.cmake.in ${PROJECT_BINARY_DIR}/RivuletConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Rivulet)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/RivuletConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/RivuletConfig.cmake ${PROJECT_BINARY_DIR}/RivuletConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/EngineDependencies.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Rivulet)

# Headers keep their paths, "engine/graph/graph.h". Kernels' own stay inside, save those that kernels of others build on.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/engine DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rivulet
        FILES_MATCHING PATTERN "*.h" PATTERN "kernels/cpu/*" EXCLUDE
        PATTERN "kernels/cuda/*" EXCLUDE PATTERN "kernels/cuda_libraries/*" EXCLUDE
        PATTERN "*-inl.h" EXCLUDE  # those are the kernels' own: included once a target
        # Those that read ONNX's messages: the package has none of their headers.
        REGEX "onnx/(importer|operator|tensor|weight_places|window|export/graph_exporter|export/model_writer)\\.h$" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/dataflow DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rivulet
        FILES_MATCHING PATTERN "*.h"
        PATTERN "cluster/*" EXCLUDE)
# Of a cluster's tasks, the headers that show no gRPC.
install(FILES ${PROJECT_SOURCE_DIR}/dataflow/cluster/cluster_spec.h ${PROJECT_SOURCE_DIR}/dataflow/cluster/task_server.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rivulet/dataflow/cluster)
install(FILES ${PROJECT_SOURCE_DIR}/rpc/credentials.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rivulet/rpc)
install(FILES ${PROJECT_SOURCE_DIR}/certificates/role.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rivulet/certificates)
# What a library of algorithms compiles against beside these (federated/algorithms/algorithm_library.h); no wire.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/federated DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rivulet
        FILES_MATCHING PATTERN "*.h" PATTERN "transport/*" EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/engine/kernels/cpu/strided/elementwise.h
              ${PROJECT_SOURCE_DIR}/engine/kernels/cpu/strided/strided.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rivulet/engine/kernels/cpu/strided)
install(DIRECTORY ${PROJECT_BINARY_DIR}/proto/graph ${PROJECT_BINARY_DIR}/proto/onnx
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rivulet/proto
        FILES_MATCHING PATTERN "*.pb.h")
