// `rivulet`: all commands.
#include "cli/application.h"
#include "cli/op_libraries.h"

int main(int argc, char** argv) {
  return rivulet::RunApplication(
      {.name = "rivulet", .root = rivulet::RootCommand, .load_op_libraries = rivulet::LoadOpLibraries}, argc, argv);
}
