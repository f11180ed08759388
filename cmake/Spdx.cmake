# cmake -DPROGRAM=FILE -DNAME=rivulet -DVERSION=0.2.0 -DHEADERS=PACKAGE,… -DOUT=FILE [-DOS_RELEASE=/etc/os-release] -P cmake/Spdx.cmake
#
# Writes what PROGRAM is linked with as an SPDX 2.3 document in JSON: a package of the distribution for each shared library that
# the loader opens for it, and for each library that is headers alone and so was compiled in; with version, origin and licence
# (licences.txt). It asks the loader (ldd) and dpkg, so the list is of the machine that built the program; where there is no dpkg,
# a library stands by its file's name, of no version and no known licence.
cmake_minimum_required(VERSION 3.25)
foreach(needed PROGRAM NAME VERSION OUT)
  if(NOT ${needed})
    message(FATAL_ERROR "Spdx.cmake needs -D${needed}=…")
  endif()
endforeach()
string(REPLACE "," ";" HEADERS "${HEADERS}")

# Whose packages they are: of Debian, Ubuntu or another that dpkg serves (os-release(5)).
if(NOT OS_RELEASE)
  set(OS_RELEASE /etc/os-release)
endif()
set(distribution debian)
set(distribution_name Debian)
if(EXISTS ${OS_RELEASE})
  file(STRINGS ${OS_RELEASE} lines REGEX "^(ID|NAME)=")
  foreach(line ${lines})
    string(REGEX MATCH "^([A-Z]+)=[\"']?([^\"']*)" line "${line}")
    if(CMAKE_MATCH_1 STREQUAL ID)
      set(distribution "${CMAKE_MATCH_2}")
    else()
      set(distribution_name "${CMAKE_MATCH_2}")
    endif()
  endforeach()
endif()

# libraries: their files; library_of_FILE: the name that the program asks for.
execute_process(COMMAND ldd ${PROGRAM} OUTPUT_VARIABLE opened COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \t\n]+ => /[^ \n]+" opened "${opened}")
set(libraries)
foreach(line ${opened})
  string(REGEX MATCH "^([^ ]+) => (.*)$" line "${line}")
  list(APPEND libraries ${CMAKE_MATCH_2})
endforeach()

# package_of_FILE. A merged /usr has two names for each file, of which dpkg knows one.
set(both ${libraries})
list(TRANSFORM both PREPEND /usr)
execute_process(COMMAND dpkg-query --search ${libraries} ${both} OUTPUT_VARIABLE owners ERROR_QUIET RESULT_VARIABLE ignored)
string(REGEX MATCHALL "[^\n]+" owners "${owners}")
foreach(line ${owners})
  if(line MATCHES "^([^:,]+)[^/]*: (/usr)?(/.*)$")
    set(package_of_${CMAKE_MATCH_3} ${CMAKE_MATCH_1})
  endif()
endforeach()

set(packages)
foreach(file ${libraries})
  string(REGEX REPLACE "^/usr/" "/" known "${file}")
  cmake_path(GET file FILENAME library)
  set(package ${library})
  if(DEFINED package_of_${known})
    set(package ${package_of_${known}})
  endif()
  list(APPEND packages ${package})
  list(APPEND libraries_of_${package} ${library})
endforeach()
list(APPEND packages ${HEADERS})
list(REMOVE_DUPLICATES packages)
list(SORT packages)

file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/licences.txt lines REGEX "^[^#]")
foreach(line ${lines})
  string(REGEX MATCH "^([^ ]+) +(.*)$" line "${line}")
  set(licence_of_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
endforeach()

# add_package(NAME VERSION LICENCE HOMEPAGE PURL COMMENT): an element of the document's packages.
set(elements)
set(relationships)
function(add_package id name version licence supplier homepage purl comment)
  set(reference "")
  if(purl)
    set(reference ",
      \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\", \"referenceLocator\": \"${purl}\"}]")
  endif()
  foreach(optional version homepage comment)
    set(${optional}_line "")
  endforeach()
  if(version)
    set(version_line "\n      \"versionInfo\": \"${version}\",")
  endif()
  if(homepage)
    set(homepage_line "\n      \"homepage\": \"${homepage}\",")
  endif()
  if(comment)
    set(comment_line "\n      \"comment\": \"${comment}\",")
  endif()
  string(APPEND elements "    {
      \"SPDXID\": \"${id}\",
      \"name\": \"${name}\",${version_line}
      \"supplier\": \"${supplier}\",
      \"downloadLocation\": \"NOASSERTION\",${homepage_line}
      \"filesAnalyzed\": false,
      \"licenseConcluded\": \"${licence}\",
      \"licenseDeclared\": \"${licence}\",
      \"copyrightText\": \"NOASSERTION\",${comment_line}
      \"primaryPackagePurpose\": \"LIBRARY\"${reference}
    },\n")
  set(elements "${elements}" PARENT_SCOPE)
endfunction()

foreach(package ${packages})
  set(version "")
  set(source "")
  execute_process(COMMAND dpkg-query --show "--showformat=\${Version}|\${source:Package}|\${Architecture}|\${Homepage}" ${package}
                  OUTPUT_VARIABLE fields ERROR_QUIET RESULT_VARIABLE unknown)
  # A library of several architectures is said once for each.
  if(NOT unknown AND fields MATCHES "^([^|]*)\\|([^|]*)\\|([^|]*)\\|([^|]*)$")
    set(version "${CMAKE_MATCH_1}")
    set(source "${CMAKE_MATCH_2}")
    set(architecture "${CMAKE_MATCH_3}")
    set(homepage "${CMAKE_MATCH_4}")
    string(REPLACE ":" "%3A" version_of_purl "${version}")
    string(REPLACE "+" "%2B" version_of_purl "${version_of_purl}")
    string(REPLACE "+" "%2B" name_of_purl "${package}")
    set(purl "pkg:deb/${distribution}/${name_of_purl}@${version_of_purl}?arch=${architecture}")
    set(supplier "Organization: ${distribution_name} (${source})")
  else()
    set(homepage "")
    set(purl "")
    set(supplier NOASSERTION)
  endif()
  set(licence NOASSERTION)
  if(source AND DEFINED licence_of_${source})
    set(licence "${licence_of_${source}}")
  endif()
  string(REGEX REPLACE "[^A-Za-z0-9.-]" "-" id "SPDXRef-${package}")
  if(package IN_LIST HEADERS)
    set(comment "compiled in: headers alone")
    string(APPEND relationships "    {\"spdxElementId\": \"SPDXRef-program\", \"relationshipType\": \"CONTAINS\", \"relatedSpdxElement\": \"${id}\"},\n")
  else()
    list(JOIN libraries_of_${package} ", " comment)
    string(PREPEND comment "linked: ")
    string(APPEND relationships "    {\"spdxElementId\": \"SPDXRef-program\", \"relationshipType\": \"DYNAMIC_LINK\", \"relatedSpdxElement\": \"${id}\"},\n")
  endif()
  add_package(${id} ${package} "${version}" "${licence}" "${supplier}" "${homepage}" "${purl}" "${comment}")
endforeach()

# SOURCE_DATE_EPOCH counts, as for all of a package. The name is of the content, so that two lists of one name are the same.
string(TIMESTAMP created "%Y-%m-%dT%H:%M:%SZ" UTC)
string(SHA256 digest "${elements}${relationships}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUT} "{
  \"spdxVersion\": \"SPDX-2.3\",
  \"dataLicense\": \"CC0-1.0\",
  \"SPDXID\": \"SPDXRef-DOCUMENT\",
  \"name\": \"${NAME}-${VERSION}\",
  \"documentNamespace\": \"https://spdx.org/spdxdocs/${NAME}-${VERSION}-${digest}\",
  \"creationInfo\": {\"created\": \"${created}\", \"creators\": [\"Tool: cmake/Spdx.cmake\"]},
  \"packages\": [
${elements}    {
      \"SPDXID\": \"SPDXRef-program\",
      \"name\": \"${NAME}\",
      \"versionInfo\": \"${VERSION}\",
      \"supplier\": \"NOASSERTION\",
      \"downloadLocation\": \"NOASSERTION\",
      \"filesAnalyzed\": false,
      \"licenseConcluded\": \"NOASSERTION\",
      \"licenseDeclared\": \"NOASSERTION\",
      \"copyrightText\": \"NOASSERTION\",
      \"primaryPackagePurpose\": \"APPLICATION\"
    }
  ],
  \"relationships\": [
${relationships}    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-program\"}
  ]
}
")
