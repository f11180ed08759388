// The subcommands of `rivulet data`, a file each.
#pragma once

#include "cli/command.h"

namespace rivulet {

Command DataImportCommand();     // import.cc
Command ImportTableCommand();    // import_table.cc: of import
Command DataColumnsCommand();    // columns.cc
Command DataFetchCommand();      // fetch.cc
Command DataSynthCommand();      // synth.cc
Command DataPartitionCommand();  // partition.cc
Command DataInspectCommand();    // records.cc
Command DataVerifyCommand();     // records.cc

}  // namespace rivulet
