# `cpack -G DEB`: `rivulet` and `rivulet-client`, each with its man pages, completion for bash, zsh and fish, and
# service as a package of Debian's. They ask for the libraries that the binaries were linked with, so they are for the release that they were
# built on. Neither has a file of the other: a machine may have both.

# For both packages: the scripts of `program`, which `rivulet` prints, below `folder`.
set(write_completion [[
  function(write_completion rivulet program)
    foreach(script bash:bash-completion/completions/${program} zsh:zsh/vendor-completions/_${program}
            fish:fish/vendor_completions.d/${program}.fish)
      string(REPLACE ":" ";" script "${script}")
      list(POP_FRONT script shell)
      get_filename_component(scripts "${folder}/share/${script}" DIRECTORY)
      file(MAKE_DIRECTORY "${scripts}")
      execute_process(COMMAND "${rivulet}" completion ${shell} COMMAND_ERROR_IS_FATAL ANY
                      OUTPUT_FILE "${folder}/share/${script}")
    endforeach()
  endfunction()
]])
install(CODE "${write_completion}" COMPONENT program)
install(CODE "${write_completion}" COMPONENT client)
install(CODE [[
  set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  # Made by the program that was just installed: the pages are its own.
  execute_process(COMMAND "${folder}/bin/rivulet" manual --out "${folder}/share/man/man1" OUTPUT_QUIET
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${folder}/bin/rivulet" manual --section 5 --out "${folder}/share/man/man5" OUTPUT_QUIET
                  COMMAND_ERROR_IS_FATAL ANY)
  write_completion("${folder}/bin/rivulet" rivulet)
  file(GLOB client_pages "${folder}/share/man/man1/rivulet-client.1" "${folder}/share/man/man1/rivulet-client-*.1")
  file(REMOVE ${client_pages})  # the other package's
]] COMPONENT program)
# rivulet-client tells neither by itself: `rivulet` knows both programs.
install(CODE "set(rivulet \"$<TARGET_FILE:rivulet>\")\nset(pages \"${PROJECT_BINARY_DIR}/client_pages\")" COMPONENT client)
install(CODE [[
  set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  file(REMOVE_RECURSE "${pages}")
  execute_process(COMMAND "${rivulet}" manual --out "${pages}" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB client_pages "${pages}/rivulet-client.1" "${pages}/rivulet-client-*.1")
  file(COPY ${client_pages} DESTINATION "${folder}/share/man/man1")
  write_completion("${rivulet}" rivulet-client)
]] COMPONENT client)
install(FILES deploy/systemd/rivulet@.service DESTINATION lib/systemd/system COMPONENT program)
# The same service under a name of its own, so that the two packages share no file.
file(READ deploy/systemd/rivulet@.service unit)
string(REPLACE "rivulet@" "rivulet-client@" unit "${unit}")
string(REPLACE "/usr/bin/rivulet" "/usr/bin/rivulet-client" unit "${unit}")
string(REPLACE "sysusers.d/rivulet.conf" "sysusers.d/rivulet-client.conf" unit "${unit}")
string(REPLACE "man:rivulet(1)" "man:rivulet-client(1)" unit "${unit}")
file(WRITE ${PROJECT_BINARY_DIR}/rivulet-client@.service "${unit}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS deploy/systemd/rivulet@.service)
install(FILES ${PROJECT_BINARY_DIR}/rivulet-client@.service DESTINATION lib/systemd/system COMPONENT client)
install(FILES deploy/systemd/rivulet.conf DESTINATION lib/sysusers.d COMPONENT program)
install(FILES deploy/systemd/rivulet.conf DESTINATION lib/sysusers.d COMPONENT client RENAME rivulet-client.conf)
# The program's help names pages as docs/…; they are installed under that name.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION share/doc/rivulet COMPONENT program)
install(DIRECTORY docs DESTINATION share/doc/rivulet COMPONENT program)
install(FILES docs/guide/site.md docs/guide/certificates.md docs/guide/security.md DESTINATION share/doc/rivulet-client/docs/guide
        COMPONENT client)

# What each program is linked with, and under which licences: read from the program that is installed. The target `spdx` writes
# both lists into the build's folder.
set(compiled_in libeigen3-dev,libcli11-dev,nlohmann-json3-dev)  # the libraries of scripts/packages.sh that are headers alone
add_custom_target(spdx)
foreach(program rivulet rivulet-client)
  if(program STREQUAL rivulet AND RIVULET_HTTP_FOUND)
    set(headers_of_program ${compiled_in},libboost-dev)
  else()
    set(headers_of_program ${compiled_in})
  endif()
  set(list_of_${program} -DPROGRAM=$<TARGET_FILE:${program}> -DNAME=${program} -DVERSION=${PROJECT_VERSION} -DHEADERS=${headers_of_program})
  add_custom_command(TARGET spdx POST_BUILD VERBATIM COMMAND ${CMAKE_COMMAND} ${list_of_${program}}
                     -DOUT=${PROJECT_BINARY_DIR}/${program}.spdx.json -P ${PROJECT_SOURCE_DIR}/cmake/Spdx.cmake)
  add_dependencies(spdx ${program})
  set(component program)
  if(program STREQUAL rivulet-client)
    set(component client)
  endif()
  list(JOIN list_of_${program} "\" \"" arguments)
  install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" \"${arguments}\"
    \"-DOUT=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/${program}/${program}.spdx.json\" -P \"${PROJECT_SOURCE_DIR}/cmake/Spdx.cmake\"
    COMMAND_ERROR_IS_FATAL ANY)"
          COMPONENT ${component})
endforeach()

# Packing builds nothing: the tests, which `all` has, are no part of a package.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_PACKAGE_NAME rivulet)
set(CPACK_PACKAGE_VENDOR Rivulet)
set(CPACK_PACKAGE_CONTACT "Rivulet <rivulet@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Federated learning: simulate, deploy and inspect")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program client)
if(TARGET rivulet_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME rivulet-mpi)
  set(CPACK_DEBIAN_MPI_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "rivulet (= ${PROJECT_VERSION}), openmpi-bin")
  set(CPACK_COMPONENT_MPI_DESCRIPTION "Federated learning: what rivulet opens where mpirun has started it")
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME rivulet)
# `rivulet data fetch` opens it.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS libcurl4)
set(CPACK_DEBIAN_PROGRAM_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME rivulet-client)
set(CPACK_DEBIAN_CLIENT_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_CLIENT_PACKAGE_SECTION science)
set(CPACK_COMPONENT_CLIENT_DESCRIPTION "Federated learning: the program of a site, which trains on data that stays there")
# What the program opens where a GPU is: it needs the driver's library and no other of CUDA's.
if(RIVULET_CUDA_FOUND)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME rivulet-cuda)
  set(CPACK_DEBIAN_CUDA_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "rivulet (= ${PROJECT_VERSION})")
  set(CPACK_COMPONENT_CUDA_DESCRIPTION "Federated learning: what rivulet trains on NVIDIA GPUs with")
endif()
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/deploy/debian/postinst;${PROJECT_SOURCE_DIR}/deploy/debian/prerm;${PROJECT_SOURCE_DIR}/deploy/debian/postrm")
set(CPACK_DEBIAN_CLIENT_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/deploy/debian/postinst;${PROJECT_SOURCE_DIR}/deploy/debian/prerm;${PROJECT_SOURCE_DIR}/deploy/debian/postrm")
include(CPack)
