# rivulet_library(NAME [NO_UNITY] [RUNS_ONCE] SOURCES … LINKS … [PCH_FROM TARGET]): one of our libraries, with our
# warnings. Includes are written from the repository's root ("engine/graph/graph.h"); a target can include only what it
# links, because generated headers and SYSTEM includes come with the link. RUNS_ONCE: see rivulet_runs_once.
function(rivulet_options target)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/rivulet>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Clang, which builds for the fuzzer, knows not all of GCC's options and pragmas, and two things that GCC does not see:
  # what is touched without the lock that guards it (engine/base/mutex.h), and views of what is gone. These two are
  # errors, and its other warnings are not: GCC's decide.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -Wno-missing-field-initializers)
  else()
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-missing-field-initializers -Wno-unknown-warning-option
                           -Wno-unknown-pragmas -Wthread-safety -Werror=thread-safety -Werror=dangling)
  endif()
endfunction()

# Of code that runs once a program, a task or a test (builders and importers of graphs, passes, the coordinator and its
# sites, commands, tests) a build pays more for the optimiser than its users will ever get back: -O1 takes a quarter to a
# third off its processor-seconds. What runs once a step, an example or a number stays at -O2. A precompiled header of
# -O2 serves both levels; one of -O1 does not serve -O2 (GCC 12 crashes), so who reuses the tests' says RUNS_ONCE too.
# GCC's warning of variables that may be unset is a guess of the optimiser, which guesses wrong more often at -O1.
function(rivulet_runs_once target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endfunction()

# rivulet_unity(TARGET KILOBYTES SOURCES …): with RIVULET_UNITY, the target's files are compiled in batches of about so many KB, since
# most of a file's seconds go to headers and templates that its neighbours need too. Names in anonymous namespaces, and
# macros, are therefore unique in a target. Files with compile options or definitions of their own stay by themselves,
# as CMake sees to it; those with pragmas say SKIP_UNITY_BUILD_INCLUSION. Batches have as many files each; or, after EVEN,
# as many bytes: for the target that a build ends with, where one core waits while the other compiles the largest.
function(rivulet_unity target kilobytes)
  if(NOT RIVULET_UNITY)
    return()
  endif()
  cmake_parse_arguments(ARG "EVEN" "" "" ${ARGN})
  set(files 0)
  set(bytes 0)
  foreach(source ${ARG_UNPARSED_ARGUMENTS})
    get_filename_component(path ${source} ABSOLUTE)
    file(SIZE ${path} size)
    math(EXPR middle "${bytes} + ${size} / 2")
    list(APPEND middles ${middle})
    math(EXPR bytes "${bytes} + ${size}")
    math(EXPR files "${files} + 1")
  endforeach()
  math(EXPR batches "${bytes} / (${kilobytes} * 1000) + 1")
  math(EXPR batch_size "(${files} + ${batches} - 1) / ${batches}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch_size})
  if(ARG_EVEN)
    set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
    foreach(source middle IN ZIP_LISTS ARG_UNPARSED_ARGUMENTS middles)
      math(EXPR batch "${middle} * ${batches} / ${bytes}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${batch})
    endforeach()
  endif()
  # What is included is taken for a header, where a type that others see must not hold one of an anonymous namespace.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
endfunction()

# rivulet_vector_batches(TARGET SOURCES …): with RIVULET_UNITY, these sources of the target, which Highway compiles for
# several instruction sets, are compiled in batches too, of six whose names must not clash. Most of a small one's
# seconds go to Highway's own headers, once for each set. A unit can read these only once, so it is the batch that is included again for each, and with it all of its
# sources; what they say of that themselves comes too late to count.
function(rivulet_vector_batches target)
  if(NOT RIVULET_UNITY)
    return()
  endif()
  set(number 0)
  while(ARGN)
    list(SUBLIST ARGN 0 6 sources)
    list(REMOVE_ITEM ARGN ${sources})
    set_source_files_properties(${sources} PROPERTIES HEADER_FILE_ONLY ON)
    list(TRANSFORM sources REPLACE "(.+)" "#include \"\\1\"\n")
    list(JOIN sources "" includes)
    set(batch ${CMAKE_CURRENT_BINARY_DIR}/${target}_vectors_${number}.cc)
    set(itself "#undef HWY_TARGET_INCLUDE\n#define HWY_TARGET_INCLUDE \"${batch}\"\n")
    file(CONFIGURE OUTPUT ${batch} @ONLY CONTENT
         "${itself}#include \"hwy/foreach_target.h\"\n#include \"hwy/highway.h\"\n${includes}${itself}")
    set_source_files_properties(${batch} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
    # Among the checks of a search clang's passes over these loops take minutes for a batch (six seconds without), and no
    # parser is in them.
    if(RIVULET_FUZZ)
      set_source_files_properties(${batch} PROPERTIES COMPILE_OPTIONS -O0)
    endif()
    target_sources(${target} PRIVATE ${batch})
    math(EXPR number "${number} + 1")
  endwhile()
endfunction()

function(rivulet_library target)
  cmake_parse_arguments(ARG "NO_UNITY;RUNS_ONCE" "PCH_FROM" "SOURCES;LINKS" ${ARGN})
  add_library(${target} STATIC ${ARG_SOURCES})
  rivulet_options(${target})
  if(ARG_RUNS_ONCE)
    rivulet_runs_once(${target})
  endif()
  if(NOT ARG_NO_UNITY)
    rivulet_unity(${target} 240 ${ARG_SOURCES})
  endif()
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

# rivulet_room(NAME [REGISTERS] [RUNS_ONCE] [FOLDERS …] [PCH_FROM TARGET] LINKS …)
# Target TOP_NAME of the folder TOP/NAME (or of FOLDERS), where TOP is the folder that the caller's CMakeLists.txt is for.
# REGISTERS: it holds static registrations, so its archive is linked whole. RUNS_ONCE: see rivulet_runs_once. Precompiled
# headers are those of precompiled_graphs, or of PCH_FROM.
function(rivulet_room name)
  cmake_parse_arguments(ARG "REGISTERS;RUNS_ONCE" "PCH_FROM" "FOLDERS;LINKS" ${ARGN})
  if(NOT ARG_PCH_FROM)
    set(ARG_PCH_FROM precompiled_graphs)
  endif()
  if(NOT ARG_FOLDERS)
    set(ARG_FOLDERS ${name})
  endif()
  set(patterns ${ARG_FOLDERS})
  list(TRANSFORM patterns APPEND "/*.cc")
  set(runs_once "")
  if(ARG_RUNS_ONCE)
    set(runs_once RUNS_ONCE)
  endif()
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME top)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(ARG_REGISTERS)
    rivulet_registering_library(${top}_${name} ${runs_once} SOURCES ${sources} LINKS ${ARG_LINKS}
                                PCH_FROM ${ARG_PCH_FROM})
  else()
    rivulet_library(${top}_${name} ${runs_once} SOURCES ${sources} LINKS ${ARG_LINKS} PCH_FROM ${ARG_PCH_FROM})
  endif()
endfunction()

# rivulet_package(NAME): cmake/Install.cmake installs library NAME, with the caller's targets NAME_… and with those of them
# that are linked whole.
function(rivulet_package name)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  list(FILTER targets INCLUDE REGEX "^${name}_")
  set_property(GLOBAL APPEND PROPERTY RIVULET_PACKAGED ${name} ${targets})
  list(FILTER targets INCLUDE REGEX "_objects$")
  list(TRANSFORM targets REPLACE "_objects$" "")
  set_property(GLOBAL APPEND PROPERTY RIVULET_PACKAGED_WHOLE ${targets})
endfunction()
