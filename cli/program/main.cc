// `rivulet`: all commands.
#include "cli/program/application.h"
#include "cli/program/help_keys.h"
#include "cli/program/libraries.h"
#include "federated/scenario/suggest_key.h"

int main(int argc, char** argv) {
  return rivulet::RunApplication({.name = "rivulet",
                                  .root = rivulet::RootCommand,
                                  .load_libraries = rivulet::LoadLibraries,
                                  .nearest_key = rivulet::NearestScenarioKey,
                                  .print_topic = rivulet::PrintHelpOfKeys},
                                 argc, argv);
}
