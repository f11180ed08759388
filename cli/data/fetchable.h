// Data sets that can be fetched, each file with its expected digest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rivulet {

struct FetchableFile {
  std::string name;
  int64_t bytes = 0;
  std::string sha256;             // hexadecimal
  std::vector<std::string> urls;  // alternatives, in the order of attempts
};

struct FetchableSet {
  std::string name, about;
  std::string pinned_by;  // the source of the digests
  std::vector<FetchableFile> files;
  std::string import;    // "mnist": the importer of that name reads the files directly; "": they are packed
  std::string unpacked;  // of packed files: the folder inside them, for `importer`
  std::string importer;  // the subcommand of `rivulet data import`
};

// All sets, in order of their names.
const std::vector<FetchableSet>& FetchableSets();

}  // namespace rivulet
