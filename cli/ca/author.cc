// rivulet ca author: an author's key for signing plans (`rivulet plan sign`).
#include "certificates/author.h"

#include "certificates/key.h"
#include "certificates/private_files.h"
#include "cli/ca/commands.h"
#include "engine/base/write_target.h"

namespace rivulet {
namespace {

struct CaAuthorOptions {
  std::string out = "author.key";
  bool show = false;
};

Status MakeOrShowAuthor(const CaAuthorOptions& options) {
  FileSystem& fs = FileSystem::Default();
  if (options.show) {
    RIVULET_ASSIGN_OR_RETURN(const std::string pem, fs.ReadAll(options.out));
    RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, ReadKey(pem, options.out));
    RIVULET_ASSIGN_OR_RETURN(const std::string author, AuthorOf(key.get(), options.out));
    fmt::print("{}\n", AuthorText(author));
    return absl::OkStatus();
  }
  if (fs.Exists(options.out)) {
    return AlreadyExists("'{}' is there already, and a key that is lost signs nothing more; give --out another name",
                         options.out);
  }
  RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, MakeAuthorKey());
  RIVULET_ASSIGN_OR_RETURN(const std::string pem, KeyPem(key.get()));
  RIVULET_ASSIGN_OR_RETURN(const std::string author, AuthorOf(key.get(), options.out));
  PrivateFileSystem owners(fs);
  RIVULET_RETURN_IF_ERROR(WithMend(WriteFileAtomically(owners, options.out, pem)));
  fmt::print("{}: the author's key, for 'rivulet plan sign'; keep it only on the machine where plans are written\n",
             options.out);
  fmt::print("{}\n", AuthorText(author));
  return absl::OkStatus();
}

}  // namespace

Command CaAuthorCommand() {
  auto options = std::make_shared<CaAuthorOptions>();
  Command command{.name = "author",
                  .summary = "Make an author's key for signing plans, and print the author's name for sites to pin.",
                  .example =
                      "rivulet ca author --out author.key\n"
                      "  rivulet plan sign heart.plan --key author.key"};
  command.Option("--out", "FILE", &options->out, "the key file to write, readable by its owner alone [author.key]")
      .Flag("--show", &options->show, "make no key: print the author of the key in --out");
  command.run = [options] { return MakeOrShowAuthor(*options); };
  return command;
}

}  // namespace rivulet
