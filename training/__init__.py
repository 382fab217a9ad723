"""The bundled Mixture-of-Experts model and everything that trains and samples it; knows nothing of Beam."""
