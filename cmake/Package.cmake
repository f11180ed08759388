# `cpack -G DEB`: the program with its man pages, completion for bash and service as a package of Debian's. It asks for the
# libraries that the binary was linked with, so it is for the release that it was built on.
install(CODE [[
  set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
  # Made by the program that was just installed: the pages are its own.
  execute_process(COMMAND "${folder}/bin/rivulet" manual --out "${folder}/share/man/man1" OUTPUT_QUIET
                  COMMAND_ERROR_IS_FATAL ANY)
  file(MAKE_DIRECTORY "${folder}/share/bash-completion/completions")
  execute_process(COMMAND "${folder}/bin/rivulet" completion COMMAND_ERROR_IS_FATAL ANY
                  OUTPUT_FILE "${folder}/share/bash-completion/completions/rivulet")
]] COMPONENT program)
install(FILES deploy/systemd/rivulet@.service DESTINATION lib/systemd/system COMPONENT program)
install(FILES deploy/systemd/rivulet.conf DESTINATION lib/sysusers.d COMPONENT program)
install(FILES README.md docs/certificates.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# Packing builds nothing: the tests, which `all` has, are no part of a package.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_PACKAGE_NAME rivulet)
set(CPACK_PACKAGE_VENDOR Rivulet)
set(CPACK_PACKAGE_CONTACT "Rivulet <rivulet@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Federated learning: simulate, deploy and inspect")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME rivulet)
set(CPACK_DEBIAN_PROGRAM_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/deploy/debian/postinst;${PROJECT_SOURCE_DIR}/deploy/debian/postrm")
include(CPack)
