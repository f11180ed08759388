# rivulet_library(NAME [PCH] SOURCES … LINKS …): one of our libraries, with our warnings. Includes are written from the
# repository's root ("engine/graph/graph.h"); a target can include only what it links, because generated headers and
# SYSTEM includes come with the link.
function(rivulet_options target)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/rivulet>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -Wno-missing-field-initializers)
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
endfunction()

function(rivulet_library target)
  cmake_parse_arguments(ARG "OBJECT" "PCH_FROM" "SOURCES;LINKS" ${ARGN})
  add_library(${target} STATIC ${ARG_SOURCES})
  rivulet_options(${target})
  target_link_libraries(${target} PUBLIC ${ARG_LINKS})
  if(ARG_PCH_FROM)
    target_precompile_headers(${target} REUSE_FROM ${ARG_PCH_FROM})
  endif()
endfunction()

# Registrations (ops, kernels, aggregation rules) are static objects: their archive is linked whole, or they vanish.
function(rivulet_registering_library target)
  rivulet_library(${target}_objects ${ARGN})
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${target}_objects>")
endfunction()
