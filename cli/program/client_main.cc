// `rivulet-client`: what `rivulet client` runs, for sites. It links no more, and loads no code.
#include "cli/program/application.h"

int main(int argc, char** argv) {
  return rivulet::RunApplication({.name = rivulet::kClientProgram, .root = rivulet::ClientRoot}, argc, argv);
}
