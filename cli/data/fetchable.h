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
  std::vector<std::string> urls;  // any of which has it, in the order in which they are asked
};

struct FetchableSet {
  std::string name, about;
  std::string pinned_by;  // where the digests come from
  std::vector<FetchableFile> files;
  std::string import;    // "mnist": the importer of that name reads the files as they are; "": they are packed
  std::string unpacked;  // of packed files: the folder that they hold, for `importer`
  std::string importer;  // the subcommand of `rivulet data import`
};

// By name.
const std::vector<FetchableSet>& FetchableSets();

}  // namespace rivulet
