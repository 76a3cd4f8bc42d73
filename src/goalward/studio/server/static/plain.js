// Pages that only need to know who is there.
import "./who.js";
