/* One symbol too many, for the contract suite to find. */
__attribute__((visibility("default"))) int conform_extra_symbol(void) {
  return 1;
}
