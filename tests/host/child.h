// Runs a program to its end and keeps what it said.
#pragma once
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace outrider::test {

struct ChildResult {
  int status = -1;  // of waitpid
  std::string out, err;
  bool exited_with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
};

inline std::string read_back(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c; (c = std::fgetc(file)) != EOF;) text.push_back(static_cast<char>(c));
  std::fclose(file);
  return text;
}

inline ChildResult run_child(std::vector<std::string> args) {
  std::FILE *out = std::tmpfile(), *err = std::tmpfile();
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(fileno(out), STDOUT_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ChildResult result;
  waitpid(pid, &result.status, 0);
  result.out = read_back(out);
  result.err = read_back(err);
  return result;
}

}  // namespace outrider::test
