import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.Locale;

import org.deidentifier.arx.ARXAnonymizer;
import org.deidentifier.arx.ARXConfiguration;
import org.deidentifier.arx.ARXPopulationModel;
import org.deidentifier.arx.ARXResult;
import org.deidentifier.arx.AttributeType;
import org.deidentifier.arx.AttributeType.Hierarchy;
import org.deidentifier.arx.Data;
import org.deidentifier.arx.criteria.KAnonymity;
import org.deidentifier.arx.criteria.PopulationUniqueness;
import org.deidentifier.arx.risk.RiskEstimateBuilder;
import org.deidentifier.arx.risk.RiskModelPopulationUniqueness;
import org.deidentifier.arx.risk.RiskModelPopulationUniqueness.PopulationUniquenessModel;
import org.deidentifier.arx.risk.RiskModelSampleSummary;

/** What first_hour.py asks of ARX. The last line that is printed is the answer, as JSON. */
public final class FirstHour {
    public static void main(String[] told) throws Exception {
        Locale.setDefault(Locale.ROOT);
        if (told[0].equals("risk")) {
            risk(told[1], Long.parseLong(told[2]));
        } else {
            limit(told[1], told[2], told[3], Long.parseLong(told[4]), Double.parseDouble(told[5]));
        }
    }

    /** The file, with every column but the weight as a key. */
    private static Data read(String path, boolean trees) throws Exception {
        Data data = Data.create(path, StandardCharsets.UTF_8, ',');
        for (int i = 0; i < data.getHandle().getNumColumns(); i++) {
            String name = data.getHandle().getAttributeName(i);
            AttributeType type = AttributeType.QUASI_IDENTIFYING_ATTRIBUTE;
            if (name.equals("weight")) {
                type = AttributeType.IDENTIFYING_ATTRIBUTE;
            } else if (trees) {
                File tree = new File(new File(path).getParent(), name + ".tree");
                type = Hierarchy.create(tree, StandardCharsets.UTF_8, ';');
            }
            data.getDefinition().setAttributeType(name, type);
        }
        return data;
    }

    private static void risk(String path, long size) throws Exception {
        long start = System.nanoTime();
        Data data = read(path, false);
        RiskEstimateBuilder risk = data.getHandle().getRiskEstimator(ARXPopulationModel.create(size));
        double uniques = risk.getSampleBasedUniquenessRisk().getFractionOfUniqueRecords();
        RiskModelPopulationUniqueness whole = risk.getPopulationBasedUniquenessRisk();
        RiskModelSampleSummary summary = risk.getSampleBasedRiskSummary(0.2);
        int n = data.getHandle().getNumRows();
        StringBuilder found = new StringBuilder();
        for (PopulationUniquenessModel model : PopulationUniquenessModel.values()) {
            found.append(String.format("\"%s\": %.6f, ", model, whole.getNumUniqueTuples(model)));
        }
        System.out.printf(
            "{\"uniques\": %d, %s\"chosen\": \"%s\", \"success\": %.6f, \"at_risk\": %.6f, \"first_answer\": %.2f}%n",
            Math.round(uniques * n), found, whole.getPopulationUniquenessModel(),
            summary.getProsecutorRisk().getSuccessRate(), summary.getProsecutorRisk().getRecordsAtRisk(),
            (System.nanoTime() - start) / 1e9);
    }

    private static void limit(String path, String out, String word, long size, double share) throws Exception {
        Data data = read(path, true);
        ARXConfiguration wanted = ARXConfiguration.create();
        if (word.equals("uniqueness")) {
            wanted.addPrivacyModel(new PopulationUniqueness(share, PopulationUniquenessModel.DANKAR, ARXPopulationModel.create(size)));
        } else {
            wanted.addPrivacyModel(new KAnonymity(Integer.parseInt(word)));
        }
        // As many records as it takes; the window of ARX begins with none.
        wanted.setSuppressionLimit(1d);
        ARXResult found = new ARXAnonymizer().anonymize(data, wanted);
        if (!found.isResultAvailable()) {
            System.out.println("{\"refused\": \"no solution\"}");
            return;
        }
        found.getOutput().save(out, ',');
        System.out.printf("{\"took\": %.2f}%n", found.getTime() / 1000.0);
    }
}
