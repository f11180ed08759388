// A generator of a data set for `[data.synth]`: its name, options and code, in one registered file.
//
//   RIVULET_GENERATOR(digits_registration, {.name = "digits", .doc = "renders …", .settings = {…}, .write = …});
//
// The options are keys of [data.synth]; parsing, ranges, messages and docs/reference/scenario.md follow from them. So
// does the folder of the files, unless data.train names one. Reading the registry is thread-safe once main has begun.
#pragma once

#include <string>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {

struct GeneratorRequest {
  const Settings& settings;  // the generator's own options
  FileSystem& files;
  std::string train, test;  // paths of the TFRecord files; "": that one is not written
  const DataProgress& progress;
};

struct Generator {
  std::string name;
  std::string doc;  // completes "`name`: …" in the reference
  std::vector<Setting> settings = {};
  // Writes the files: both complete under their names, or neither changed. The same options give the same bytes.
  Status (*write)(const GeneratorRequest& request) = nullptr;
};

// INVALID_ARGUMENT lists the kinds and the nearest.
StatusOr<const Generator*> FindGenerator(const std::string& name);

// Registers the table ("generator", name) too. A check fails if two have one name.
struct GeneratorRegistration {
  explicit GeneratorRegistration(Generator generator);
};
#define RIVULET_GENERATOR(variable, ...) \
  [[maybe_unused]] static const ::rivulet::GeneratorRegistration variable(::rivulet::Generator __VA_ARGS__)

}  // namespace rivulet
