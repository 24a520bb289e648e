/* The header as a C program of a robot includes it. */
#include "outrider/loop.h"

int loop_header_is_c(void);
int loop_header_is_c(void) {
  outrider_loop_header header = {0};
  outrider_loop_view in, out;
  return outrider_loop_attach(&header, sizeof header, &in, &out);
}
