// `rivulet-client`: `rivulet client` as a separate program, for sites. It links nothing else, and loads no code.
#include "cli/program/application.h"

int main(int argc, char** argv) {
  return rivulet::RunApplication({.name = rivulet::kClientProgram, .root = rivulet::ClientRoot}, argc, argv);
}
