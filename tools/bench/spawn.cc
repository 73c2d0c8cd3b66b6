// spawn COMMAND...: runs it and prints, on one line of its own, wall seconds from start to end, exit code and peak memory in KiB. A process's peak
// counts what its parent held when it was started, so the parent must be small: that is all this program is for.
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  pid_t p = fork();
  if (p == 0) {
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    _exit(127);
  }
  int status = 0;
  rusage usage = {};
  if (p < 0 || wait4(p, &status, 0, &usage) != p) {
    perror("spawn");
    return 1;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  double seconds = double(end.tv_sec - start.tv_sec) + double(end.tv_nsec - start.tv_nsec) * 1e-9;
  printf("\nspawn %.6f %d %ld\n", seconds, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), usage.ru_maxrss);
  return 0;
}
