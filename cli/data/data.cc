// rivulet data: makes, inspects and checks data sets.
#include "cli/data/commands.h"

namespace rivulet {
namespace {

const RegisterCommand kData(50, [] {
  Command data{.name = "data",
               .summary = "Import, generate, inspect and check data sets.",
               .example = "rivulet data inspect mnist/train.tfrecord"};
  data.subcommands.push_back(DataFetchCommand());
  data.subcommands.push_back(DataImportCommand());
  data.subcommands.push_back(DataColumnsCommand());
  data.subcommands.push_back(DataSynthCommand());
  data.subcommands.push_back(DataPartitionCommand());
  data.subcommands.push_back(DataInspectCommand());
  data.subcommands.push_back(DataVerifyCommand());
  return data;
});

}  // namespace
}  // namespace rivulet
